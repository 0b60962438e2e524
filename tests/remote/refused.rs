//! Commands that write, or plan to, refuse images on servers before they ask the server anything.

use super::server::Server;
use super::{ran, straddle};
use crate::tools::{Dir, flat};

#[test]
fn commands_that_write_refuse_servers() {
    let dir = Dir::new("remote");
    let image = dir.image("disk.img", 64 << 20);
    crate::tools::write_table(&image, 512, "label: dos\nstart=63, size=40000, type=83\n");
    let server = Server::start(dir.path());
    let url = server.url("/right/disk.img?SECRET=1");
    let (plan, _) = (dir.join("plan.json"), ());
    let planned =
        ran(&mut straddle(dir.path()), &["plan", "disk.img", "--add", "8MiB", "--save", "plan.json"]);
    assert!(plan.exists(), "{}", planned.all());
    let signed = "https://me:SECRET@localhost/disk.img";
    for arguments in [
        vec!["plan", &url, "--add", "8MiB"],
        vec!["realign", &url],
        vec!["realign", "disk.img", "--to", &url],
        vec!["realign", "disk.img", "--to", "new.img", "--allow-backing", &url],
        vec!["apply", "plan.json", "--write", &url],
        vec!["apply", "plan.json", "--write", "new.img", "--from", &url],
        vec!["resume", &url],
        vec!["undo", "plan.json", "--write", &url],
        vec!["bench", "random-write", &url],
        vec!["probe", &url],
        vec!["serve", &url, "--nbd", "127.0.0.1:0"],
        vec!["plan", signed, "--add", "8MiB"],
        vec!["probe", "s3://bucket/disk.img"],
    ] {
        let run = ran(&mut straddle(dir.path()), &arguments);
        assert_eq!(run.code, 4, "{arguments:?}: {}", run.all());
        assert!(run.out.is_empty(), "{}", run.out);
        let said = flat(&run.err);
        assert!(
            said.contains(": is on a server, and straddle ") && said.contains("; download it first"),
            "{said}"
        );
        assert!(!said.contains("SECRET"), "{said}");
    }
    let backing = ran(&mut straddle(dir.path()), &["check", "--allow-backing", &url, "disk.img"]);
    assert_eq!(backing.code, 2, "{}", backing.all());
    assert!(backing.err.contains("--allow-backing accepts only local files"), "{}", backing.err);
    assert!(!backing.all().contains("SECRET"));
    assert_eq!(server.asked().len(), 0);
}

#[test]
fn an_address_that_is_none_is_an_error_of_its_target() {
    let dir = Dir::new("remote");
    let image = dir.image("disk.img", 64 << 20);
    crate::tools::write_table(&image, 512, "label: gpt\nstart=2048, size=40000\n");
    for (address, shown, why) in [
        ("https://", "https://", "has no host"),
        ("http://me:SECRET@localhost/x", "http://localhost/x", "never sent unencrypted"),
        ("https://host/a\u{1b}[2Jb", r"https://host/a\u{1b}[2Jb", "a control character"),
        ("https://host/a#SECRET", "https://host/a?…", "cannot contain '#'"),
        ("s3://bucket", "s3://bucket", "has no key"),
        ("az://container/x?sig=SECRET", "az://container/x?…", "a signed URL"),
        ("gs://me:SECRET@bucket/x", "gs://bucket/x", "credentials from environment variables"),
    ] {
        let run = ran(&mut straddle(dir.path()), &["check", "--json", address, "disk.img"]);
        assert_eq!(run.code, 3, "{}", run.all());
        assert!(run.err.contains(&format!("straddle: {shown}: ")) && run.err.contains(why), "{}", run.err);
        assert!(!run.all().contains("SECRET") && !run.all().contains('\u{1b}'), "{}", run.all());
        let targets = run.targets();
        assert_eq!((&targets[0]["status"], &targets[1]["status"]), (&"failed".into(), &"ok".into()));
    }
}
