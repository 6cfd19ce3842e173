//! A TCP proxy in front of a server, for tests about a slow, silent or broken connection.

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use crate::{Error, names::free_port};

/// A proxy on 127.0.0.1. It ends with its connections when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    target: SocketAddr,
    delay_micros: AtomicU64,
    silent: AtomicBool,
    ended: AtomicBool,
    round_trips: AtomicU64,
    connections: AtomicU64,
    open: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// A proxy in front of a server on 127.0.0.1.
    ///
    /// # Errors
    /// No port is free.
    pub fn start(target_port: u16) -> Result<Self, Error> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, free_port()?))
            .map_err(Error::io("listen as a proxy"))?;
        let address = listener
            .local_addr()
            .map_err(Error::io("listen as a proxy"))?;
        let state = Arc::new(State {
            target: (Ipv4Addr::LOCALHOST, target_port).into(),
            delay_micros: AtomicU64::new(0),
            silent: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            round_trips: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            open: Mutex::default(),
        });
        let proxy = Self {
            address,
            state: state.clone(),
        };
        thread::spawn(move || state.serve(&listener));
        Ok(proxy)
    }

    /// A proxy in front of the server that a URL leads to, and the URL that leads through it.
    ///
    /// # Errors
    /// No port is free.
    ///
    /// # Panics
    /// If the URL names no port on 127.0.0.1.
    pub fn before(url: &str) -> Result<(Self, String), Error> {
        const HOST: &str = "127.0.0.1:";
        let (before, rest) = url
            .split_once(HOST)
            .unwrap_or_else(|| panic!("{url} names no port on 127.0.0.1"));
        let digits = rest.find(|c: char| !c.is_ascii_digit());
        let (port, after) = rest.split_at(digits.unwrap_or(rest.len()));
        let port = port
            .parse()
            .unwrap_or_else(|_| panic!("{url} names no port on 127.0.0.1"));
        let proxy = Self::start(port)?;
        let through = format!("{before}{HOST}{}{after}", proxy.port());
        Ok((proxy, through))
    }

    /// The port that clients connect to.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Delays what is sent from now on in each direction; a round trip takes twice as long.
    pub fn set_delay(&self, each_way: Duration) {
        let micros = u64::try_from(each_way.as_micros()).unwrap_or(u64::MAX);
        self.state.delay_micros.store(micros, Ordering::Relaxed);
    }

    /// While the proxy is silent, connections are accepted and stay open and their data is lost, as behind
    /// a firewall that forgot its connections.
    pub fn set_silent(&self, silent: bool) {
        self.state.silent.store(silent, Ordering::Relaxed);
    }

    /// How often a client sent after the server had answered, on all connections together.
    pub fn round_trips(&self) -> u64 {
        self.state.round_trips.load(Ordering::Relaxed)
    }

    /// The number of accepted connections.
    pub fn connections(&self) -> u64 {
        self.state.connections.load(Ordering::Relaxed)
    }

    /// Closes all open connections; new ones are accepted.
    pub fn cut(&self) {
        self.state.cut();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::Relaxed);
        self.cut();
        // Wakes the thread that accepts.
        drop(TcpStream::connect(self.address));
    }
}

impl State {
    fn serve(self: Arc<Self>, listener: &TcpListener) {
        for client in listener.incoming() {
            if self.ended.load(Ordering::Relaxed) {
                return;
            }
            // A client or server that has gone ends only its own connection.
            if let Ok(client) = client {
                self.connections.fetch_add(1, Ordering::Relaxed);
                let _ = self.connect(client);
            }
        }
    }

    fn connect(self: &Arc<Self>, client: TcpStream) -> std::io::Result<()> {
        let server = TcpStream::connect(self.target)?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        self.open()
            .extend([client.try_clone()?, server.try_clone()?]);
        let answered = Arc::new(AtomicBool::new(true));
        let (from_client, to_client) = (client.try_clone()?, client);
        let (from_server, to_server) = (server.try_clone()?, server);
        let (up, down) = (self.clone(), self.clone());
        let asked = answered.clone();
        thread::spawn(move || {
            up.pass_on(from_client, to_server, |state| {
                if asked.swap(false, Ordering::Relaxed) {
                    state.round_trips.fetch_add(1, Ordering::Relaxed);
                }
            });
        });
        thread::spawn(move || {
            down.pass_on(from_server, to_client, |_| {
                answered.store(true, Ordering::Relaxed);
            });
        });
        Ok(())
    }

    /// Keeps reading while the data read before is delayed, so that a delay costs latency, not bandwidth.
    fn pass_on(&self, mut from: TcpStream, mut to: TcpStream, note: impl Fn(&Self)) {
        let (queue, due) = mpsc::channel::<(Instant, Vec<u8>)>();
        thread::spawn(move || {
            for (at, bytes) in due {
                thread::sleep(at.saturating_duration_since(Instant::now()));
                if to.write_all(&bytes).is_err() {
                    break;
                }
            }
            let _ = to.shutdown(Shutdown::Both);
        });
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            note(self);
            if self.silent.load(Ordering::Relaxed) {
                continue;
            }
            let delay = Duration::from_micros(self.delay_micros.load(Ordering::Relaxed));
            if queue
                .send((Instant::now() + delay, buffer[..read].to_vec()))
                .is_err()
            {
                break;
            }
        }
        let _ = from.shutdown(Shutdown::Both);
    }

    fn cut(&self) {
        for stream in self.open().drain(..) {
            // It may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn open(&self) -> std::sync::MutexGuard<'_, Vec<TcpStream>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends everything back.
    fn echo() -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                thread::spawn(move || {
                    let mut buffer = [0; 1024];
                    while let Ok(read @ 1..) = stream.read(&mut buffer) {
                        if stream.write_all(&buffer[..read]).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        address
    }

    fn ask(stream: &mut TcpStream, word: &str) -> std::io::Result<String> {
        stream.write_all(word.as_bytes())?;
        let mut answer = vec![0; word.len()];
        stream.read_exact(&mut answer)?;
        Ok(String::from_utf8(answer).unwrap())
    }

    #[test]
    fn round_trips_are_counted_delayed_lost_and_cut() {
        let (proxy, url) = Proxy::before(&format!("tcp://{}/echo", echo())).unwrap();
        assert_eq!(url, format!("tcp://127.0.0.1:{}/echo", proxy.port()));
        let mut client = TcpStream::connect(proxy.address).unwrap();
        for word in ["one", "two", "three"] {
            assert_eq!(ask(&mut client, word).unwrap(), word);
        }
        assert_eq!((proxy.round_trips(), proxy.connections()), (3, 1));

        let each_way = Duration::from_millis(20);
        proxy.set_delay(each_way);
        let asked = Instant::now();
        assert_eq!(ask(&mut client, "slow").unwrap(), "slow");
        assert!(asked.elapsed() >= 2 * each_way);

        proxy.set_silent(true);
        client
            .set_read_timeout(Some(Duration::from_millis(200)))
            .unwrap();
        let lost = ask(&mut client, "lost").unwrap_err().kind();
        assert!(matches!(
            lost,
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
        ));
        proxy.set_silent(false);
        assert_eq!(ask(&mut client, "again").unwrap(), "again");

        proxy.cut();
        assert!(ask(&mut client, "cut").is_err());
    }
}
