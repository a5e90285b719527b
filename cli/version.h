/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * PROBE_VERSION comes from the build: the version in meson.build.
 * Zone: client.
 */
#ifndef CLI_VERSION_H
#define CLI_VERSION_H

#ifndef PROBE_VERSION
#error "PROBE_VERSION must be given by the build"
#endif

#endif
