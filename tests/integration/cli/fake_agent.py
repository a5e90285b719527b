#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A process that pretends to have an agent: PROBE_DIR and a mode decide what it says.

  fake_agent.py MODE [VALUE]     reads the records to send from the file $FAKE_STREAM, prints "ready" when it listens
"""

import os
import socket
import sys
import time

mode = sys.argv[1]
value = int(sys.argv[2]) if len(sys.argv) > 2 else 0
with open(os.environ["FAKE_STREAM"], "rb") as file:
    records = file.read().splitlines(keepends=True)
with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
    start = file.read().rsplit(")", 1)[1].split()[19]
path = os.path.join(os.environ["PROBE_DIR"], f"{os.getpid()}-{start}.sock")


def listen():
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(path)
    server.listen(0)
    print("ready", flush=True)
    return server


def answer(connection):
    request = connection.makefile("rb").readline()
    print(request.decode().strip(), flush=True)
    if mode == "silent":
        time.sleep(1000)
    elif mode == "cut":  # after so many records
        connection.sendall(b"".join(records[:value]))
    elif mode == "torn":  # in the middle of the record after so many
        connection.sendall(b"".join(records[:value]) + records[value][:len(records[value]) // 2])
    elif mode == "hang":  # says so much, then nothing more
        connection.sendall(b"".join(records[:value]))
        time.sleep(1000)
    elif mode == "die":
        connection.sendall(b"".join(records[:value]))
        os._exit(1)
    elif mode == "garbage":
        connection.sendall(records[0] + os.urandom(100000))
    elif mode == "http":
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    elif mode == "long":
        connection.sendall(records[0])
        for _ in range(100):
            connection.sendall(b"[" * 1000000)
    elif mode == "slow":  # milliseconds between records
        for record in records:
            time.sleep(value / 1000)
            connection.sendall(record)
    elif mode == "drip":  # hello, then a byte at a time
        connection.sendall(records[0])
        for byte in b"".join(records[1:]):
            connection.sendall(bytes([byte]))
            time.sleep(0.05)
    elif mode == "refuse":
        connection.sendall(records[0] + b'{"type":"error","code":"busy","text":"too many clients"}\n' + records[-1])
    elif mode == "keep":  # everything, and the connection stays open
        connection.sendall(b"".join(records))
        time.sleep(1000)
    else:
        connection.sendall(b"".join(records))


if mode == "late":
    time.sleep(value / 1000)
server = listen()
if mode == "deaf":  # the queue of length 0 holds one connection; the next ones find it full
    waiting = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    waiting.connect(path)
    time.sleep(1000)
while True:
    client, _ = server.accept()
    try:
        answer(client)
    except (BrokenPipeError, ConnectionResetError):
        pass
    client.close()
