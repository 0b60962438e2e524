//! Buckets: what is asked of the tests' own server in each store's protocol, and hostile answers in it; and
//! real servers of S3, Google Cloud Storage and Azure, which are installed by name (`make buckets`).

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::server::{Asked, Server};
use super::{Ran, ran, straddle};
use crate::tools::{Dir, flat, number, present, shell, word};

/// A bucket store: its scheme, the environment with which it is asked, and how its requests are signed.
struct Store {
    scheme: &'static str,
    /// `HOST` stands for the server.
    environment: &'static [(&'static str, &'static str)],
    /// How the header `Authorization` begins.
    signed: &'static str,
}

/// A secret in base64, as Azure's are. It says XYZZY twice.
const KEY: &str = "WFlaWlkgWFlaWlkg";

const STORES: [Store; 3] = [
    Store {
        scheme: "s3",
        environment: &[
            ("AWS_ENDPOINT", "http://HOST"),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_ACCESS_KEY_ID", "id"),
            ("AWS_SECRET_ACCESS_KEY", KEY),
            ("AWS_SESSION_TOKEN", "XYZZYTOKEN"),
        ],
        signed: "AWS4-HMAC-SHA256 Credential=id/",
    },
    Store {
        scheme: "gs",
        environment: &[("GOOGLE_BASE_URL", "http://HOST"), ("GOOGLE_BEARER_TOKEN", "XYZZYTOKEN")],
        signed: "Bearer XYZZYTOKEN",
    },
    Store {
        scheme: "az",
        environment: &[
            ("AZURE_STORAGE_ENDPOINT", "http://HOST"),
            ("AZURE_ALLOW_HTTP", "true"),
            ("AZURE_STORAGE_ACCOUNT_NAME", "account"),
            ("AZURE_STORAGE_ACCOUNT_KEY", KEY),
        ],
        signed: "SharedKey account:",
    },
];

impl Store {
    fn command(&self, dir: &Path, server: &Server) -> Command {
        let mut command = straddle(dir);
        command
            .envs(self.environment.iter().map(|(name, value)| (name, value.replace("HOST", &server.host))));
        command
    }

    /// Checks the object `key` of the bucket `bucket`.
    fn check(&self, dir: &Path, server: &Server, bucket: &str, key: &str) -> Ran {
        let url = format!("{}://{bucket}/{key}", self.scheme);
        let run = ran(&mut self.command(dir, server), &["check", "--json", &url]);
        for secret in ["XYZZY", KEY, "Signature"] {
            assert!(!run.all().contains(secret), "{}", run.all());
        }
        assert_eq!(run.targets()[0]["target"], url);
        run
    }
}

fn disk(dir: &Dir, name: &str) {
    let image = dir.image(name, 64 << 20);
    crate::tools::write_table(&image, 512, "label: gpt\nstart=2048, size=40000\n");
}

#[test]
fn each_store_is_asked_in_its_own_way() {
    if !present(&["sfdisk"]) {
        return;
    }
    let dir = Dir::new("remote");
    // In a bucket a key is taken as it is.
    let key = "a b+c%20é&=(1)'~.img";
    disk(&dir, key);
    for store in STORES {
        let server = Server::start(dir.path());
        let run = store.check(dir.path(), &server, "right", key);
        assert_eq!(run.code, 0, "{}", run.all());
        let target = run.targets().remove(0);
        let asked = server.asked();
        assert_eq!(number(&target["traffic"], "requests"), asked.len() as u64);
        let sent: u64 = asked.iter().map(|asked| asked.sent).sum();
        assert_eq!(number(&target["traffic"], "received_bytes"), sent);
        assert!(asked.len() > 3);
        let header = |asked: &Asked, name: &str| asked.headers.get(name).cloned().unwrap_or_default();
        for (index, asked) in asked.iter().enumerate() {
            assert!(header(asked, "authorization").starts_with(store.signed), "{asked:?}");
            assert!(asked.range().is_some(), "{asked:?}");
            assert_eq!(header(asked, "if-match"), if index > 0 { "\"1\"" } else { "" }, "{asked:?}");
        }
    }
}

#[test]
fn public_objects_are_read_unsigned_if_the_environment_says_so() {
    if !present(&["sfdisk"]) {
        return;
    }
    let dir = Dir::new("remote");
    disk(&dir, "disk.img");
    for (store, name) in STORES.iter().zip(["AWS", "GOOGLE", "AZURE"]) {
        let server = Server::start(dir.path());
        let mut command = store.command(dir.path(), &server);
        command.env_remove("GOOGLE_BEARER_TOKEN").env(format!("{name}_SKIP_SIGNATURE"), "true");
        let run = ran(&mut command, &["check", &format!("{}://right/disk.img", store.scheme)]);
        assert_eq!(run.code, 0, "{}", run.all());
        assert!(server.asked().iter().all(|asked| !asked.headers.contains_key("authorization")), "{name}");
    }
}

#[test]
fn a_wrong_answer_in_a_bucket_is_an_error() {
    if !present(&["sfdisk"]) {
        return;
    }
    let dir = Dir::new("remote");
    disk(&dir, "disk.img");
    let cases = [
        ("code", "returned 403 Forbidden (AccessDenied): "),
        ("nothing-there", "returned 404 Not Found"),
        ("ignores-ranges", "ignores range requests"),
        ("truncates", "sent 32768 bytes, but announced 65536"),
        ("long", "sent more bytes, but announced 65536"),
        ("endless-header", "its response header is longer than 32768 bytes"),
        ("garbage", "sent an invalid HTTP response"),
        ("redirects-to-file", "redirects a signed request"),
        ("changes", "the object changed while it was being read (HTTP status 412)"),
        ("changes-quietly", "the object changed while it was being read (the ETag differs)"),
        ("wrong-start", "sent a range other than bytes 0 to 65535: bytes 1-65536/1000000"),
        ("no-size", "sent a range other than"),
        ("huge-size", "sent a range other than"),
        ("huge-end", "sent a range other than"),
        ("odd-range", "sent an invalid HTTP response"),
        ("no-range", "the response has no Content-Range"),
    ];
    for store in STORES {
        let server = Server::start(dir.path());
        for (bucket, said) in cases {
            let run = store.check(dir.path(), &server, bucket, "disk.img");
            assert_eq!(run.code, 3, "{}", run.all());
            let error = word(&run.targets()[0], "error");
            assert!(
                error.starts_with("cannot fetch byte ") && error.contains(said),
                "{} {bucket}: {error}",
                store.scheme
            );
        }
        let mut command = store.command(dir.path(), &server);
        let url = format!("{}://stalls/disk.img", store.scheme);
        let run = ran(&mut command, &["check", "--time-limit", "1", &url]);
        assert_eq!(run.code, 3, "{}", run.all());
        let said = ["did not respond in time", "timed out after 1 seconds"];
        assert!(said.iter().any(|said| run.err.contains(said)), "{}", run.err);
    }
}

#[test]
fn what_is_missing_in_the_environment_is_said() {
    let dir = Dir::new("remote");
    let server = Server::start(dir.path());
    let host = format!("http://{}", server.host);
    // Nobody has credentials: neither the environment nor the server that stands for the machine's metadata.
    let mut command = straddle(dir.path());
    command.env("AWS_METADATA_ENDPOINT", &host).env("AWS_ENDPOINT", &host).env("AWS_ALLOW_HTTP", "true");
    let run = ran(&mut command, &["check", "s3://right/disk.img"]);
    assert_eq!(run.code, 3);
    let said = flat(&run.err);
    assert!(said.contains(&format!("cannot get credentials from {}", server.host)), "{said}");
    assert!(said.contains("AWS_SKIP_SIGNATURE=true for public objects") && said.contains("404"), "{said}");
    let clear = ran(
        straddle(dir.path()).env("AWS_ENDPOINT", &host).env("AWS_SKIP_SIGNATURE", "true"),
        &["check", "s3://right/disk.img"],
    );
    assert_eq!(clear.code, 3);
    assert!(flat(&clear.err).contains("without TLS are not allowed"), "{}", clear.err);
    let account = ran(&mut straddle(dir.path()), &["check", "az://right/disk.img"]);
    assert_eq!(account.code, 3);
    assert!(account.err.contains("AZURE_STORAGE_ACCOUNT_NAME"), "{}", account.err);
    let region = ran(
        straddle(dir.path())
            .envs([("AWS_ENDPOINT", host.as_str()), ("AWS_ALLOW_HTTP", "true")])
            .env("AWS_SKIP_SIGNATURE", "true"),
        &["check", "s3://other-region/disk.img"],
    );
    assert!(
        flat(&region.err).contains("the bucket is in another region; set AWS_REGION=eu-west-7"),
        "{}",
        region.err
    );
    for key in ["a//b", "/a", "a/../b", "a/"] {
        let run = ran(
            straddle(dir.path()).env("AWS_ENDPOINT", &host).env("AWS_SKIP_SIGNATURE", "true"),
            &["check", &format!("s3://right/{key}")],
        );
        assert_eq!(run.code, 3, "{key}: {}", run.all());
        assert!(flat(&run.err).contains("a key with an empty part"), "{}", run.err);
    }
}

/// A server that is killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server that listens on `port`, and waits until it does.
fn started(command: &mut Command, port: u16) -> Running {
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut running = Running(child.unwrap_or_else(|error| panic!("{command:?}: {error}")));
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(running.0.try_wait().unwrap().is_none(), "{command:?} has ended");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    running
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The folder in which `scripts/buckets` installs the servers.
fn installed() -> PathBuf {
    let folder = std::env::var_os("BUCKETS").expect("make buckets sets BUCKETS to the folder of the servers");
    PathBuf::from(folder)
}

/// A qcow2 of 2 GiB, with a misaligned partition.
fn big(dir: &Dir) {
    let raw = dir.image("disk.raw", 2 << 30);
    crate::tools::write_table(
        &raw,
        512,
        "label: gpt\nstart=2048, size=409600\nstart=3074055, size=1000000\n",
    );
    shell(
        "mkfs.ext4 -qF -E offset=$((3074055 * 512)) disk.raw 500000K
        qemu-img create -q -f qcow2 -o preallocation=metadata disk.qcow2 2G
        qemu-img convert -n -O qcow2 disk.raw disk.qcow2 && rm disk.raw",
        dir.path(),
    );
}

/// Checks `url` with this environment: the verdict of the file, for less than 1 MiB.
fn as_the_file(dir: &Dir, url: &str, environment: &[(&str, &str)]) {
    let here = ran(&mut straddle(dir.path()), &["check", "--json", "disk.qcow2"]);
    let there = ran(straddle(dir.path()).envs(environment.iter().copied()), &["check", "--json", url]);
    assert_eq!(there.code, 1, "{}", there.all());
    let (here, there) = (here.targets().remove(0), there.targets().remove(0));
    assert_eq!(here["findings"], there["findings"]);
    assert!(here["findings"].to_string().contains("S001"));
    let received = number(&there["traffic"], "received_bytes");
    assert!(received < 1 << 20, "{received} bytes");
    println!("{url}: {received} bytes in {} requests", there["traffic"]["requests"]);
    let missing = ran(
        straddle(dir.path()).envs(environment.iter().copied()),
        &["check", &url.replace("disk.qcow2", "missing")],
    );
    assert_eq!(missing.code, 3);
    assert!(missing.err.contains("404 Not Found"), "{}", missing.err);
}

/// versitygw checks each signature.
#[test]
#[ignore = "needs servers that make buckets installs"]
fn a_real_s3_server() {
    let (dir, port) = (Dir::new("remote"), free_port());
    big(&dir);
    shell("mkdir root metadata", dir.path());
    let mut command = Command::new(installed().join("bin/versitygw"));
    command.args(["-p", &format!("127.0.0.1:{port}"), "-a", "me", "-s", "XYZZYXYZZY", "posix", "--sidecar"]);
    command.arg(dir.join("metadata")).arg(dir.join("root"));
    let _running = started(&mut command, port);
    let host = format!("http://127.0.0.1:{port}");
    // curl of Debian 12 does not add the header that it has to sign.
    let unhashed = "x-amz-content-sha256: UNSIGNED-PAYLOAD";
    let signed = ["--aws-sigv4", "aws:amz:us-east-1:s3", "--user", "me:XYZZYXYZZY", "-H", unhashed];
    let mut make = Command::new("curl");
    crate::tools::run(make.args(["-sSf", "-X", "PUT"]).args(signed).arg(format!("{host}/images")), "");
    put(&dir, &format!("{host}/images/disk.qcow2"), &signed);
    let keys = |secret| {
        [
            ("AWS_ENDPOINT", host.as_str()),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_ACCESS_KEY_ID", "me"),
            ("AWS_SECRET_ACCESS_KEY", secret),
        ]
    };
    as_the_file(&dir, "s3://images/disk.qcow2", &keys("XYZZYXYZZY"));
    let wrong = ran(straddle(dir.path()).envs(keys("XYZZYXYZZX")), &["check", "s3://images/disk.qcow2"]);
    assert_eq!(wrong.code, 3);
    assert!(wrong.err.contains("403 Forbidden (SignatureDoesNotMatch)"), "{}", wrong.err);
    assert!(!wrong.err.contains("XYZZY"), "{}", wrong.err);
}

/// Puts disk.qcow2 at `url`, by curl with these options.
fn put(dir: &Dir, url: &str, options: &[&str]) {
    let mut command = Command::new("curl");
    command.args(["-sSf", "-T", "disk.qcow2", url]).args(options).current_dir(dir.path());
    crate::tools::run(&mut command, "");
}

#[test]
#[ignore = "needs servers that make buckets installs"]
fn a_real_server_of_google_cloud_storage() {
    let (dir, port) = (Dir::new("remote"), free_port());
    big(&dir);
    let host = format!("http://127.0.0.1:{port}");
    let mut command = Command::new(installed().join("bin/fake-gcs-server"));
    command.args([
        "-scheme",
        "http",
        "-host",
        "127.0.0.1",
        "-port",
        &port.to_string(),
        "-backend",
        "memory",
        "-public-host",
        &format!("127.0.0.1:{port}"),
    ]);
    let _running = started(&mut command, port);
    let create = format!(
        "curl -sSf -H 'Content-Type: application/json' -d '{{\"name\":\"images\"}}' {host}/storage/v1/b"
    );
    shell(&create, dir.path());
    let upload = format!("{host}/upload/storage/v1/b/images/o?uploadType=media&name=disk.qcow2");
    put(&dir, &upload, &["-X", "POST"]);
    as_the_file(
        &dir,
        "gs://images/disk.qcow2",
        &[("GOOGLE_BASE_URL", &host), ("GOOGLE_SKIP_SIGNATURE", "true")],
    );
}

/// Azurite checks each signature, and presigned URLs as well.
#[test]
#[ignore = "needs servers that make buckets installs"]
fn a_real_server_of_azure() {
    let (dir, port) = (Dir::new("remote"), free_port());
    big(&dir);
    let mut command = Command::new(installed().join("node_modules/.bin/azurite-blob"));
    command.arg("-l").arg(dir.join("data")).args([
        "--blobHost",
        "127.0.0.1",
        "--blobPort",
        &port.to_string(),
        "--silent",
    ]);
    let _running = started(&mut command, port);
    let host = format!("http://127.0.0.1:{port}");
    // The SDK that Azurite brings puts the blob, and signs a URL.
    let script = format!(
        "const b = require('@azure/storage-blob');
        const c = b.BlobServiceClient.fromConnectionString('{CONNECTION};BlobEndpoint={host}/devstoreaccount1');
        (async () => {{
            const k = c.getContainerClient('images');
            await k.create();
            await k.getBlockBlobClient('disk.qcow2').uploadFile('disk.qcow2');
            const until = new Date(Date.now() + 3600000);
            console.log(await k.getBlobClient('disk.qcow2').generateSasUrl({{ permissions: b.BlobSASPermissions.parse('r'), expiresOn: until }}));
        }})();"
    );
    let mut node = Command::new("node");
    node.args(["-e", &script]).env("NODE_PATH", installed().join("node_modules")).current_dir(dir.path());
    let signed = crate::tools::run(&mut node, "").trim().to_owned();
    as_the_file(
        &dir,
        "az://images/disk.qcow2",
        &[("AZURE_STORAGE_USE_EMULATOR", "true"), ("AZURITE_BLOB_STORAGE_URL", &host)],
    );
    let run = ran(&mut straddle(dir.path()), &["check", "--json", &signed]);
    assert_eq!(run.code, 1, "{}", run.all());
    assert!(signed.contains("sig=") && !run.all().contains("sig="), "{}", run.all());
}

/// The account that every Azurite has; its key is in its documentation.
const CONNECTION: &str = "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
