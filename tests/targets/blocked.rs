// SPDX-License-Identifier: LGPL-2.1-or-later
//! Threads that block in what Rust's standard library offers. Built by tests/integration/test_recover.py with
//! several flags. Prints the number of its threads, and ends by a signal.
use std::hint::black_box;
use std::io::Read;
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::{mpsc, Arc, Barrier, Condvar, Mutex, RwLock};
use std::thread;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// A frame of some size between the thread's start and the call, with a destructor to run past.
struct Guard<'a>(&'a mut [u8]);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        black_box(&self.0);
    }
}

#[inline(never)]
fn middle(wait: &mut dyn FnMut()) {
    let mut bytes = [0u8; 200];
    let guard = Guard(black_box(&mut bytes));
    wait();
    black_box(&guard.0);
}

#[inline(never)]
fn outer(depth: u32, wait: &mut dyn FnMut()) {
    if black_box(depth) > 0 {
        outer(depth - 1, wait);
    } else {
        middle(wait);
    }
    black_box(depth);
}

fn main() {
    let mutex = Arc::new(Mutex::new(0));
    let lock = Arc::new(RwLock::new(0));
    let pair = Arc::new((Mutex::new(()), Condvar::new()));
    let barrier = Arc::new(Barrier::new(2));
    let (sender, receiver) = mpsc::channel::<u32>();
    let (bounded, _kept) = mpsc::sync_channel::<u32>(0);
    let (mut reader, _writer) = UnixStream::pair().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // It reads from our end of a pipe, and so ends with us.
    let mut child: Child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let _pipe = child.stdin.take();
    let _held = mutex.lock().unwrap();
    let _written = lock.write().unwrap();

    let (m, l, p, timed) = (mutex.clone(), lock.clone(), pair.clone(), pair.clone());
    let waits: Vec<Box<dyn FnMut() + Send>> = vec![
        Box::new(|| thread::sleep(HOUR)),
        Box::new(|| thread::park()),
        Box::new(|| thread::park_timeout(HOUR)),
        Box::new(move || drop(m.lock())),
        Box::new(move || drop(l.read())),
        Box::new(move || drop(p.1.wait(p.0.lock().unwrap()))),
        Box::new(move || drop(timed.1.wait_timeout(timed.0.lock().unwrap(), HOUR))),
        Box::new(move || drop(barrier.wait())),
        Box::new(move || drop(receiver.recv())),
        Box::new(move || drop(bounded.send(1))),
        Box::new(move || drop(reader.read(&mut [0; 16]))),
        Box::new(move || drop(listener.accept())),
        Box::new(move || drop(child.wait())),
    ];
    let n = waits.len();
    let mut threads: Vec<_> = waits
        .into_iter()
        .enumerate()
        .map(|(i, mut wait)| thread::spawn(move || outer(i as u32 % 4, &mut *wait)))
        .collect();
    println!("{}", n + 1);
    let _keep = sender;
    outer(2, &mut || drop(threads.remove(0).join()));
}
