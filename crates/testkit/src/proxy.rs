//! A TCP proxy that breaks connections in the ways that networks do.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use socket2::SockRef;

/// Forwards connections from its port to a target on 127.0.0.1, until it is told to misbehave.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    /// Nothing is forwarded and nothing closed: what a firewall does that forgot the connection.
    black_hole: AtomicBool,
    refuse: AtomicBool,
    done: AtomicBool,
    /// Bytes that may still flow towards clients before the connection that brings the last of them is reset; then the
    /// next entry counts. Empty: no limit.
    left: Mutex<VecDeque<u64>>,
    accepted: AtomicU64,
    open: Mutex<Vec<Weak<Connection>>>,
}

/// Both ends, held by the two threads that pump. The sockets close when both have left.
#[derive(Debug)]
struct Connection {
    client: TcpStream,
    server: TcpStream,
    over: AtomicBool,
}

impl Connection {
    /// Ends both ends in order.
    fn finish(&self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }

    /// A socket that must not linger is reset when it closes, as long as nobody shuts it down first.
    fn reset(&self) {
        let _ = SockRef::from(&self.client).set_linger(Some(Duration::ZERO));
        self.over.store(true, Ordering::Relaxed);
        let _ = self.server.shutdown(Shutdown::Both);
    }
}

const POLL: Duration = Duration::from_millis(20);

impl Proxy {
    pub fn start(target_port: u16) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared {
            target: SocketAddr::from(([127, 0, 0, 1], target_port)),
            black_hole: AtomicBool::new(false),
            refuse: AtomicBool::new(false),
            done: AtomicBool::new(false),
            left: Mutex::new(VecDeque::new()),
            accepted: AtomicU64::new(0),
            open: Mutex::new(Vec::new()),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accept(&listener, &accepting));
        Ok(Self { port, shared })
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Connections accepted so far.
    pub fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::Relaxed)
    }

    /// Ends all connections in order (FIN), as a restart of the server does.
    pub fn cut(&self) {
        self.take_open().iter().for_each(|c| c.finish());
    }

    /// Resets all connections (RST), as a crash of the server's host does.
    pub fn reset(&self) {
        self.take_open().iter().for_each(|c| c.reset());
    }

    /// Resets the connection that brings the n-th byte from now to a client: in the middle of whatever that is.
    pub fn reset_after(&self, bytes: u64) {
        self.reset_after_each(&[bytes]);
    }

    /// The same several times in a row: each limit counts from the reset before it.
    pub fn reset_after_each(&self, bytes: &[u64]) {
        *self.shared.left.lock().expect("no holder panics") = bytes.iter().copied().collect();
    }

    /// Resets that are still to come.
    pub fn resets_left(&self) -> usize {
        self.shared.left.lock().expect("no holder panics").len()
    }

    /// While on, connections stay open and nothing passes.
    pub fn black_hole(&self, on: bool) {
        self.shared.black_hole.store(on, Ordering::Relaxed);
    }

    /// While on, new connections end at once.
    pub fn refuse(&self, on: bool) {
        self.shared.refuse.store(on, Ordering::Relaxed);
    }

    fn take_open(&self) -> Vec<Arc<Connection>> {
        let open = std::mem::take(&mut *self.shared.open.lock().expect("no holder panics"));
        open.iter().filter_map(Weak::upgrade).collect()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.done.store(true, Ordering::Relaxed);
        self.cut();
        // Wakes the accepting thread.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming().flatten() {
        if shared.done.load(Ordering::Relaxed) {
            return;
        }
        shared.accepted.fetch_add(1, Ordering::Relaxed);
        if shared.refuse.load(Ordering::Relaxed) {
            continue;
        }
        let Ok(server) = TcpStream::connect(shared.target) else { continue };
        let _ = pump_both(client, server, shared);
    }
}

fn pump_both(client: TcpStream, server: TcpStream, shared: &Arc<Shared>) -> std::io::Result<()> {
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(POLL))?;
    }
    let connection = Arc::new(Connection { client, server, over: AtomicBool::new(false) });
    let mut open = shared.open.lock().expect("no holder panics");
    open.retain(|c| c.strong_count() > 0);
    open.push(Arc::downgrade(&connection));
    for towards_client in [true, false] {
        let (connection, shared) = (Arc::clone(&connection), Arc::clone(shared));
        thread::spawn(move || pump(&connection, towards_client, &shared));
    }
    Ok(())
}

fn pump(connection: &Connection, towards_client: bool, shared: &Shared) {
    let (mut from, mut to) = match towards_client {
        true => (&connection.server, &connection.client),
        false => (&connection.client, &connection.server),
    };
    let mut buffer = vec![0_u8; 16 * 1024];
    while !connection.over.load(Ordering::Relaxed) {
        if shared.black_hole.load(Ordering::Relaxed) {
            thread::sleep(POLL);
            continue;
        }
        let n = match from.read(&mut buffer) {
            Ok(0) => return connection.finish(),
            Ok(n) => n,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
            Err(_) => return connection.finish(),
        };
        let pass = if towards_client { allowed(&shared.left, n as u64) as usize } else { n };
        if to.write_all(&buffer[..pass]).is_err() {
            return connection.finish();
        }
        if pass < n {
            return connection.reset();
        }
    }
}

/// Takes up to `n` from what is left. At its end the limit is off, so that the next connection works or has the next one.
fn allowed(left: &Mutex<VecDeque<u64>>, n: u64) -> u64 {
    let mut left = left.lock().expect("no holder panics");
    match left.front_mut() {
        None => n,
        Some(limit) if *limit <= n => {
            let pass = (*limit).min(n.saturating_sub(1));
            left.pop_front();
            pass
        }
        Some(limit) => {
            *limit -= n;
            n
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers every connection with an endless stream of bytes.
    fn chatty_server() -> u16 {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for mut client in listener.incoming().flatten() {
                thread::spawn(move || while client.write_all(&[7; 1000]).is_ok() {});
            }
        });
        port
    }

    fn read_until_error(stream: &mut TcpStream) -> (usize, Option<ErrorKind>) {
        let (mut total, mut buffer) = (0, [0; 4096]);
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => return (total, None),
                Ok(n) => total += n,
                Err(e) => return (total, Some(e.kind())),
            }
        }
    }

    #[test]
    fn forwards_then_cuts() {
        let proxy = Proxy::start(chatty_server()).unwrap();
        let mut client = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
        let mut some = [0; 100];
        client.read_exact(&mut some).unwrap();
        assert_eq!(some, [7; 100]);
        proxy.cut();
        read_until_error(&mut client);
        assert_eq!(proxy.accepted(), 1);
    }

    #[test]
    fn resets_at_a_byte() {
        let proxy = Proxy::start(chatty_server()).unwrap();
        proxy.reset_after(12_345);
        let mut client = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
        let (total, error) = read_until_error(&mut client);
        assert!(total <= 12_345, "{total}");
        assert_eq!(error, Some(ErrorKind::ConnectionReset));
        // The limit is used up: the next connection lives.
        let mut client = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
        client.read_exact(&mut vec![0; 50_000]).unwrap();
    }

    #[test]
    fn a_black_hole_passes_nothing_and_closes_nothing() {
        let proxy = Proxy::start(chatty_server()).unwrap();
        proxy.black_hole(true);
        let mut client = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
        client.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let error = client.read(&mut [0; 10]).unwrap_err().kind();
        assert!(matches!(error, ErrorKind::WouldBlock | ErrorKind::TimedOut));
        proxy.black_hole(false);
        client.set_read_timeout(None).unwrap();
        client.read_exact(&mut [0; 10]).unwrap();
    }
}
