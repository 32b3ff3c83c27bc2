//! Login: greeting, the step to TLS, and the ways to prove a password.

use std::sync::Arc;

use tokio::net::TcpStream;

use super::packet::{PacketStream, Reader, put_length, put_string, server_error};
use super::tls::{self, SslMode};
use super::{ConnectOptions, Connection, WireError, WireResult};

const CLIENT_LONG_PASSWORD: u32 = 1;
const CLIENT_LONG_FLAG: u32 = 1 << 2;
const CLIENT_PROTOCOL_41: u32 = 1 << 9;
const CLIENT_SSL: u32 = 1 << 11;
const CLIENT_TRANSACTIONS: u32 = 1 << 13;
const CLIENT_SECURE_CONNECTION: u32 = 1 << 15;
const CLIENT_PLUGIN_AUTH: u32 = 1 << 19;
const CLIENT_CONNECT_ATTRS: u32 = 1 << 20;
const CLIENT_PLUGIN_AUTH_LENENC: u32 = 1 << 21;

/// utf8mb4_general_ci: every server since 5.5.3 and every MariaDB knows it.
const COLLATION: u8 = 45;
const MAX_PACKET: u32 = 1 << 30;

struct Greeting {
    version: Arc<str>,
    thread_id: u32,
    capabilities: u32,
    nonce: Vec<u8>,
    plugin: String,
}

pub(super) async fn login(socket: TcpStream, options: &ConnectOptions) -> WireResult<Connection> {
    let mut packets = PacketStream::new(Box::new(socket), 0);
    let packet = packets.read().await?;
    if packet.first() == Some(&0xff) {
        return Err(server_error(&packet));
    }
    let mut greeting = read_greeting(&packet)?;
    let mut flags = CLIENT_LONG_PASSWORD
        | CLIENT_LONG_FLAG
        | CLIENT_PROTOCOL_41
        | CLIENT_TRANSACTIONS
        | CLIENT_SECURE_CONNECTION
        | CLIENT_PLUGIN_AUTH
        | (CLIENT_PLUGIN_AUTH_LENENC | CLIENT_CONNECT_ATTRS) & greeting.capabilities;
    let offered = greeting.capabilities & CLIENT_SSL != 0;
    let secure = match options.tls.mode {
        SslMode::Disabled => false,
        SslMode::Preferred => offered,
        _ if offered => true,
        _ => {
            return Err(WireError::Tls(
                "ssl.mode asks for an encrypted connection, which this server does not offer"
                    .into(),
            ));
        }
    };
    if secure {
        flags |= CLIENT_SSL;
        packets.write(&header(flags)).await?;
        let (socket, sequence) = packets.into_socket()?;
        let socket = tls::start(socket, &options.host, &options.tls).await?;
        packets = PacketStream::new(Box::new(socket), sequence);
    }

    let mut response = header(flags);
    response.extend_from_slice(options.user.as_bytes());
    response.push(0);
    let proof = first_proof(&greeting, &options.password, secure)?;
    if flags & CLIENT_PLUGIN_AUTH_LENENC != 0 {
        put_string(&mut response, &proof);
    } else {
        response.push(proof.len() as u8);
        response.extend_from_slice(&proof);
    }
    response.extend_from_slice(greeting.plugin.as_bytes());
    response.push(0);
    if flags & CLIENT_CONNECT_ATTRS != 0 {
        let mut attributes = Vec::new();
        put_string(&mut attributes, b"program_name");
        put_string(&mut attributes, b"lakeward");
        put_length(&mut response, attributes.len() as u64);
        response.extend_from_slice(&attributes);
    }
    packets.write(&response).await?;

    finish(&mut packets, &mut greeting, &options.password, secure).await?;
    Ok(Connection {
        packets,
        server_version: greeting.version,
        thread_id: greeting.thread_id,
        secure,
        read_timeout: options.read_timeout,
        rows_pending: false,
    })
}

fn header(flags: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(96);
    out.extend_from_slice(&flags.to_le_bytes());
    out.extend_from_slice(&MAX_PACKET.to_le_bytes());
    out.push(COLLATION);
    out.extend_from_slice(&[0; 23]);
    out
}

fn read_greeting(packet: &[u8]) -> WireResult<Greeting> {
    let mut r = Reader(packet);
    if r.u8()? != 10 {
        return Err(WireError::Protocol("the server does not speak protocol version 10"));
    }
    let version = String::from_utf8_lossy(r.until_zero());
    // Replication peers of MariaDB announce a version that old clients understand.
    let version = version.strip_prefix("5.5.5-").unwrap_or(&version).into();
    let thread_id = r.u32()?;
    let mut nonce = r.take(8)?.to_vec();
    r.take(1)?;
    let low = r.u16()?;
    let _collation = r.u8()?;
    let _status = r.u16()?;
    let high = r.u16()?;
    let nonce_length = r.u8()?;
    r.take(10)?;
    let rest = usize::from(nonce_length).saturating_sub(8).max(13);
    let tail = r.take(rest.min(r.0.len()))?;
    nonce.extend_from_slice(tail);
    nonce.truncate(20);
    let plugin = String::from_utf8_lossy(r.until_zero()).into_owned();
    let capabilities = u32::from(low) | u32::from(high) << 16;
    if capabilities & (CLIENT_PROTOCOL_41 | CLIENT_PLUGIN_AUTH)
        != CLIENT_PROTOCOL_41 | CLIENT_PLUGIN_AUTH
    {
        return Err(WireError::Protocol("the server is too old: it has no authentication plugins"));
    }
    Ok(Greeting { version, thread_id, capabilities, nonce, plugin })
}

fn first_proof(greeting: &Greeting, password: &str, secure: bool) -> WireResult<Vec<u8>> {
    match proof(&greeting.plugin, &greeting.nonce, password, secure) {
        // The server names its own default, which need not be the account's: it asks to switch when it is not.
        Err(WireError::Login(_)) => Ok(Vec::new()),
        other => other,
    }
}

fn proof(plugin: &str, nonce: &[u8], password: &str, secure: bool) -> WireResult<Vec<u8>> {
    use mysql_common::scramble::{scramble_native, scramble_sha256};
    let password = password.as_bytes();
    match plugin {
        "mysql_native_password" => {
            Ok(scramble_native(nonce, password).map(|p| p.to_vec()).unwrap_or_default())
        }
        "caching_sha2_password" => {
            Ok(scramble_sha256(nonce, password).map(|p| p.to_vec()).unwrap_or_default())
        }
        "mysql_clear_password" if secure => Ok([password, b"\0"].concat()),
        "mysql_clear_password" => Err(WireError::Login(
            "the server asks for the password in clear text, which needs an encrypted connection"
                .into(),
        )),
        other => Err(WireError::Login(format!(
            "the account uses the authentication plugin {other}, which lakeward does not know; use \
             caching_sha2_password or mysql_native_password"
        ))),
    }
}

/// Answers the server until it lets us in.
async fn finish(
    packets: &mut PacketStream,
    greeting: &mut Greeting,
    password: &str,
    secure: bool,
) -> WireResult<()> {
    loop {
        let packet = packets.read().await?;
        match packet.first() {
            Some(0x00) => return Ok(()),
            Some(0xff) => return Err(server_error(&packet)),
            Some(0xfe) => {
                let mut r = Reader(&packet[1..]);
                greeting.plugin = String::from_utf8_lossy(r.until_zero()).into_owned();
                greeting.nonce = r.0.to_vec();
                greeting.nonce.truncate(20);
                let proof = proof(&greeting.plugin, &greeting.nonce, password, secure)?;
                packets.write(&proof).await?;
            }
            Some(0x01) if greeting.plugin == "caching_sha2_password" => match packet.get(1) {
                // The server knows the password already.
                Some(3) => {}
                Some(4) => {
                    send_password(packets, greeting, password, secure).await?;
                }
                _ => return Err(WireError::Protocol("an unknown step of caching_sha2_password")),
            },
            _ => return Err(WireError::Protocol("an unknown packet during login")),
        }
    }
}

/// The whole password: over TLS as it is, else under the server's public key.
async fn send_password(
    packets: &mut PacketStream,
    greeting: &Greeting,
    password: &str,
    secure: bool,
) -> WireResult<()> {
    let mut clear = password.as_bytes().to_vec();
    clear.push(0);
    if secure {
        return packets.write(&clear).await;
    }
    packets.write(&[2]).await?;
    let packet = packets.read().await?;
    let key = match packet.first() {
        Some(0x01) => &packet[1..],
        Some(0xff) => return Err(server_error(&packet)),
        _ => return Err(WireError::Protocol("the server did not send its public key")),
    };
    for (byte, mask) in clear.iter_mut().zip(greeting.nonce.iter().cycle()) {
        *byte ^= mask;
    }
    // The library asserts the key's form, and the key comes from outside.
    let sealed = std::panic::catch_unwind(|| mysql_common::crypto::encrypt(&clear, key))
        .map_err(|_| WireError::Protocol("the server's public key cannot be used"))?;
    packets.write(&sealed).await
}
