/* SPDX-License-Identifier: LGPL-2.1-or-later */
typedef int handler_comes_next;
