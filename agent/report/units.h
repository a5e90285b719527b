/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Units of time. Here, since agent and probectl both may include what belongs to the report.
 * Zone: pure.
 */
#ifndef AGENT_REPORT_UNITS_H
#define AGENT_REPORT_UNITS_H

#include <stdint.h>

#define NANOS_PER_SECOND UINT64_C(1000000000)
#define NANOS_PER_MS UINT64_C(1000000)
/* USER_HZ, the unit of times in /proc; 100 on every architecture that Linux still has but alpha and ia64. */
#define TICKS_PER_SECOND 100
#define NANOS_PER_TICK (NANOS_PER_SECOND / TICKS_PER_SECOND)

#endif
