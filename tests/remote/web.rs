//! Real web servers, with and without TLS: Apache, and nginx where it is installed.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::{ran, straddle};
use crate::tools::{Dir, number, present, shell, signal, word};

/// Makes an authority, a certificate of it for localhost and 127.0.0.1, and a file without certificates.
fn certificates(dir: &Path) {
    shell(
        "key='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'
        openssl req -x509 $key -keyout ca.key -out ca.pem -days 3650 -subj /CN=authority 2>/dev/null
        openssl req -x509 $key -keyout other.key -out other.pem -days 3650 -subj /CN=other 2>/dev/null
        openssl req $key -keyout key.pem -out request.pem -subj /CN=localhost 2>/dev/null
        printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n' > names
        openssl x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 3650 -extfile names -out cert.pem 2>/dev/null
        : > none.pem",
        dir,
    );
}

/// A running web server. It is ended when dropped, with its workers, which a kill would leave.
struct WebServer {
    program: &'static str,
    child: Child,
    dir: Dir,
    /// The ports without TLS, with it, and with it for another name of the host.
    ports: [u16; 3],
}

impl Drop for WebServer {
    fn drop(&mut self) {
        signal(self.child.id(), "TERM");
        let _ = self.child.wait();
    }
}

/// Ports that were free a moment ago.
fn free_ports() -> [u16; 3] {
    let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

impl WebServer {
    /// Starts `program` on the folder `www` in `dir`.
    fn start(program: &'static str, dir: Dir) -> Self {
        certificates(dir.path());
        shell(r#"printf 'me:%s\n' "$(openssl passwd -apr1 'XYZ:ZY@')" > users"#, dir.path());
        let ports = free_ports();
        let config = dir.join("config");
        fs::write(&config, if program == "nginx" { nginx(&dir, ports) } else { apache(&dir, ports) })
            .unwrap();
        // Its workers may run as another user.
        shell("chmod 755 . www; chmod 644 www/* users", dir.path());
        let mut command = Command::new(program);
        command.env("PATH", crate::tools::PATH).stdout(Stdio::null()).stderr(Stdio::null());
        match program {
            "nginx" => command.arg("-p").arg(dir.path()).arg("-c").arg(&config),
            _ => command.arg("-DFOREGROUND").arg("-f").arg(&config),
        };
        let mut child = command.spawn().unwrap();
        while TcpStream::connect(("127.0.0.1", ports[2])).is_err() {
            let log = || fs::read_to_string(dir.join("error.log")).unwrap_or_default();
            assert!(child.try_wait().unwrap().is_none(), "{program} has ended: {}", log());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        Self { program, child, dir, ports }
    }

    fn ca(&self) -> PathBuf {
        self.dir.join("ca.pem")
    }

    fn http(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.ports[0])
    }

    fn https(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.ports[1])
    }

    /// The lines of its log so far: status, bytes sent with the header, Authorization, path. The server
    /// writes a line after its answer; once it has written that of a request that we make ourselves, all
    /// earlier ones are there.
    fn log(&self) -> Vec<[String; 4]> {
        let read = || fs::read_to_string(self.dir.join("access.log")).unwrap_or_default();
        let mark = format!("/mark-{}", read().lines().count());
        shell(&format!("curl -s -o none {}", self.http(&mark)), self.dir.path());
        while !read().contains(&mark) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let fields = |line: &str| {
            let mut fields = line.split('|').map(str::to_owned);
            [(); 4].map(|()| fields.next().unwrap_or_default())
        };
        let log = read();
        log.lines().filter(|line| !line.contains("/mark-")).map(fields).collect()
    }
}

fn nginx(dir: &Dir, [http, https, other]: [u16; 3]) -> String {
    let dir = dir.path().display();
    format!(
        "daemon off; pid {dir}/pid; error_log {dir}/error.log; worker_processes 1;
        events {{ worker_connections 64; }}
        http {{
            log_format t '$status|$bytes_sent|$http_authorization|$request_uri';
            access_log {dir}/access.log t;
            client_body_temp_path {dir}/t1; proxy_temp_path {dir}/t2; fastcgi_temp_path {dir}/t3;
            uwsgi_temp_path {dir}/t4; scgi_temp_path {dir}/t5;
            ssl_certificate {dir}/cert.pem; ssl_certificate_key {dir}/key.pem;
            server {{
                listen 127.0.0.1:{http}; listen 127.0.0.1:{https} ssl; listen 127.0.0.2:{https} ssl;
                root {dir}/www;
                location /private/ {{ alias {dir}/www/; auth_basic x; auth_basic_user_file {dir}/users; }}
                location /away {{ return 302 https://127.0.0.1:{other}/disk.qcow2; }}
                location /down {{ return 301 http://127.0.0.1:{http}/disk.qcow2; }}
            }}
            server {{ listen 127.0.0.1:{other} ssl; root {dir}/www; }}
        }}"
    )
}

fn apache(dir: &Dir, [http, https, other]: [u16; 3]) -> String {
    let dir = dir.path().display();
    let modules = "mpm_event authz_core authz_user authn_core authn_file auth_basic alias ssl socache_shmcb";
    let load = |name: &str| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n");
    let modules: String = modules.split(' ').map(load).collect();
    let tls = format!("SSLEngine on\nSSLCertificateFile {dir}/cert.pem\nSSLCertificateKeyFile {dir}/key.pem");
    format!(
        "ServerRoot {dir}\nServerName localhost\nPidFile {dir}/pid\nErrorLog {dir}/error.log\nUser www-data\n{modules}
        Listen 127.0.0.1:{http}\nListen 127.0.0.1:{https}\nListen 127.0.0.2:{https}\nListen 127.0.0.1:{other}
        DefaultRuntimeDir {dir}\nStartServers 1\nDocumentRoot {dir}/www
        LogFormat \"%>s|%O|%{{Authorization}}i|%U\" t\nCustomLog {dir}/access.log t
        Redirect 302 /away https://127.0.0.1:{other}/disk.qcow2\nRedirect 301 /down http://127.0.0.1:{http}/disk.qcow2
        Alias /private {dir}/www
        <Location /private>
        AuthType Basic\nAuthName x\nAuthUserFile {dir}/users\nRequire valid-user
        </Location>
        <VirtualHost *:{https} *:{other}>\n{tls}\n</VirtualHost>\n"
    )
}

/// The web servers that are installed. Apache has to be.
fn servers() -> Vec<&'static str> {
    if !present(&["apache2", "openssl", "curl", "sfdisk", "qemu-img"]) {
        return Vec::new();
    }
    let has = |name: &str| crate::tools::PATH.split(':').any(|dir| Path::new(dir).join(name).exists());
    if !has("nginx") {
        crate::tools::not_run("nginx is not installed");
        return vec!["apache2"];
    }
    vec!["apache2", "nginx"]
}

/// A qcow2 of 2 GiB, all of it allocated, with four partitions that are full of file systems.
fn big(dir: &Dir) {
    fs::create_dir_all(dir.join("www")).unwrap();
    let raw = dir.image("disk.raw", 2 << 30);
    crate::tools::write_table(
        &raw,
        512,
        "label: gpt\nstart=2048, size=409600, type=U\nstart=411648, size=1638400\nstart=2050048, size=1024000\nstart=3074055, size=1000000\n",
    );
    let file_systems = [
        ("mkfs.vfat", 2048, 409_600),
        ("mkfs.ext4 -qF", 411_648, 1_638_400),
        ("mkfs.ext4 -qF", 3_074_055, 1_000_000),
    ];
    for (make, start, sectors) in file_systems {
        let copy = "conv=notrunc,sparse bs=64K oflag=seek_bytes status=none";
        let line = format!(
            "truncate -s $(({sectors} * 512)) part && {make} part >/dev/null && dd if=part of=disk.raw {copy} seek=$(({start} * 512)) && rm part"
        );
        shell(&line, dir.path());
    }
    shell(
        "qemu-img create -q -f qcow2 -o preallocation=metadata www/disk.qcow2 2G && qemu-img convert -n -O qcow2 disk.raw www/disk.qcow2 && rm disk.raw",
        dir.path(),
    );
    assert!(fs::metadata(dir.join("www/disk.qcow2")).unwrap().len() > 2 << 30);
}

#[test]
fn two_gibibytes_cost_less_than_one_mebibyte() {
    for program in servers() {
        let dir = Dir::new("remote");
        big(&dir);
        let server = WebServer::start(program, dir);
        let here = ran(&mut straddle(&server.dir.join("www")), &["check", "--json", "disk.qcow2"]);
        for url in [server.http("/disk.qcow2"), server.https("/disk.qcow2")] {
            let before = server.log().len();
            let mut command = straddle(server.dir.path());
            let run = ran(command.env("SSL_CERT_FILE", server.ca()), &["check", "--json", &url]);
            assert_eq!(run.code, 1, "{program}: {}", run.all());
            let target = run.targets().remove(0);
            assert_eq!(target["findings"], here.targets()[0]["findings"]);
            assert!(target["findings"].to_string().contains("S001"), "{target}");
            let log = server.log().split_off(before);
            let sent: u64 = log.iter().map(|line| line[1].parse::<u64>().unwrap()).sum();
            let (requests, received) =
                (number(&target["traffic"], "requests"), number(&target["traffic"], "received_bytes"));
            assert_eq!(requests, log.len() as u64, "{program}: {log:?}");
            assert!(log.iter().all(|line| line[3] == "/disk.qcow2"), "{log:?}");
            assert!(received < 1 << 20, "{received} bytes");
            // The log also has the headers.
            assert!((sent - 1024 * requests..sent).contains(&received), "{program}: {received}, {sent}");
            println!("{program}: {received} bytes in {requests} requests: {url}");
        }
    }
}

#[test]
fn passwords_go_to_their_host_only_and_are_not_shown() {
    for program in servers() {
        let dir = Dir::new("remote");
        fs::create_dir_all(dir.join("www")).unwrap();
        let image = dir.image("www/disk.raw", 64 << 20);
        crate::tools::write_table(&image, 512, "label: gpt\nstart=2048, size=40000\n");
        shell("qemu-img convert -O qcow2 www/disk.raw www/disk.qcow2", dir.path());
        let server = WebServer::start(program, dir);
        let check = |url: &str| {
            let mut command = straddle(server.dir.path());
            ran(command.env("SSL_CERT_FILE", server.ca()), &["check", "--verbose", url])
        };
        let with =
            |path: &str, user: &str| server.https(path).replace("https://", &format!("https://{user}@"));
        let right = check(&with("/private/disk.qcow2", "me:XYZ%3AZY%40"));
        assert_eq!(right.code, 0, "{}", right.all());
        assert!(right.out.starts_with(&server.https("/private/disk.qcow2")), "{}", right.out);
        let wrong = check(&with("/private/disk.qcow2", "me:XYZ%3AZY"));
        assert_eq!(wrong.code, 3);
        assert!(wrong.err.contains("returned 401 Unauthorized"), "{}", wrong.err);
        let none = check(&server.https("/private/disk.qcow2"));
        assert!(none.err.contains("returned 401 Unauthorized"), "{}", none.err);
        // Another port is another server.
        let before = server.log().len();
        let away = check(&with("/away", "me:XYZ%3AZY%40"));
        assert_eq!(away.code, 0, "{}", away.all());
        let log = server.log().split_off(before);
        let is_sent = |line: &&[String; 4]| line[2].starts_with("Basic ");
        assert_eq!(log.iter().filter(is_sent).count(), 1, "{log:?}");
        assert!(log.iter().filter(is_sent).all(|line| line[3] == "/away"), "{log:?}");
        assert!(log.len() > 3, "{log:?}");
        let down = check(&with("/down", "me:XYZ%3AZY%40"));
        assert_eq!(down.code, 3);
        assert!(down.err.contains("redirects to HTTP without TLS, which is not followed"), "{}", down.err);
        for run in [right, wrong, none, away, down] {
            assert!(!run.all().contains("XYZ") && !run.all().contains("me:"), "{}", run.all());
        }
    }
}

#[test]
fn a_certificate_has_to_be_right() {
    for program in servers() {
        let dir = Dir::new("remote");
        fs::create_dir_all(dir.join("www")).unwrap();
        dir.image("www/disk.raw", 64 << 20);
        let server = WebServer::start(program, dir);
        let check = |authorities: &str, url: &str| {
            let mut command = straddle(server.dir.path());
            ran(command.env("SSL_CERT_FILE", server.dir.join(authorities)), &["check", "--json", url])
        };
        let url = server.https("/disk.raw");
        assert_eq!(check("ca.pem", &url).code, 0);
        let other_name = url.replace("localhost", "127.0.0.2");
        for (authorities, url, said) in [
            ("other.pem", &url, "invalid peer certificate"),
            ("ca.pem", &other_name, "certificate not valid for name"),
            ("none.pem", &url, "this machine has no certificates"),
        ] {
            let run = check(authorities, url);
            assert_eq!(run.code, 3, "{}", run.all());
            let error = word(&run.targets()[0], "error");
            assert!(error.starts_with("cannot fetch byte 0: ") && error.contains(said), "{program}: {error}");
        }
        let log = server.log();
        assert!(log.iter().all(|line| line[0] == "206"), "{}: {log:?}", server.program);
    }
}
