/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The limits of an unprivileged container, without a container; see docker_like.c. */
#ifndef TESTS_SUPPORT_DOCKER_LIKE_H
#define TESTS_SUPPORT_DOCKER_LIKE_H

/* For this process and all it starts. Returns 0, or -1 with errno. */
int docker_like_apply(void);

#endif
