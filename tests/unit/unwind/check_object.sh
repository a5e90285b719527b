#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# What the unwinder may not have when it is linked into a foreign process: calls out of itself other than the three
# memory functions that compilers place by themselves, data that can be written, thread-local data, vector registers.
# Usage: check_object.sh ARCHIVE. Prints TAP.
set -u
archive=$1
defined=$(nm --defined-only "$archive" | awk 'NF == 3 { print $3 }' | sort -u)
called=$(nm --undefined-only "$archive" | awk 'NF == 2 { print $2 }' | sort -u |
    grep -vx -e memcpy -e memset -e memcmp -e memmove -e _GLOBAL_OFFSET_TABLE_)

report() { # number, description, what is wrong (lines)
    if [ -n "$3" ]; then
        echo "$3" | sed 's/^/# /'
        echo "not ok $1 - $2"
    else
        echo "ok $1 - $2"
    fi
}

echo 1..4
report 1 "calls nothing outside" "$(for name in $called; do echo "$defined" | grep -qx -e "$name" || echo "$name"; done)"
# .data.rel.ro is written by the loader only: the table of the architecture.
report 2 "has no writable data" "$(nm "$archive" | awk '$2 ~ /^[bBCsS]$/ || ($2 ~ /^[dD]$/ && $3 !~ /^uw_arch_/)')"
report 3 "has no thread-local data, uses no %fs" "$(objdump -d "$archive" | grep -e '%fs' -e '%gs'
    readelf -SW "$archive" | grep -e ' \.tdata' -e ' \.tbss')"
report 4 "uses no vector registers" "$(objdump -d "$archive" | grep -e '%[xyz]mm' | head -5)"
