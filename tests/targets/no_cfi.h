/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Code without call frame information; see no_cfi.c. */
#ifndef TESTS_TARGETS_NO_CFI_H
#define TESTS_TARGETS_NO_CFI_H

#include "tests/targets/target.h"

T_FRAME long without_cfi(t_leaf leaf, void *argument);
void restorer_without_cfi(void);

#endif
