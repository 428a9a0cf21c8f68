use super::{Tls, TlsError, TlsFiles, Validity};
use base64::Engine as _;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

/// While a certificate is valid that is made as usual: from 1975 to 4096.
const NOW: i64 = 1_800_000_000;

/// As files hold it.
fn pem(label: &str, der: &[u8]) -> String {
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

fn key_pem(key: &rcgen::KeyPair) -> String {
    pem("PRIVATE KEY", &key.serialize_der())
}

/// Writes a new pair; gives the certificate in DER.
fn write(folder: &Path) -> Vec<u8> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    put(folder, &pem("CERTIFICATE", made.cert.der()), &key_pem(&made.signing_key));
    made.cert.der().to_vec()
}

fn put(folder: &Path, certificate: &str, key: &str) {
    fs::write(folder.join("certificate.pem"), certificate).unwrap();
    let path = folder.join("key.pem");
    fs::write(&path, key).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

fn files(folder: &Path) -> TlsFiles {
    TlsFiles { certificate: folder.join("certificate.pem"), key: folder.join("key.pem") }
}

fn served(tls: &Tls) -> Vec<u8> {
    tls.pair.current.read().cert[0].to_vec()
}

#[test]
fn a_new_pair_takes_the_place_of_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let first = write(folder.path());
    let tls = Tls::load(files(folder.path())).unwrap();
    assert_eq!(served(&tls), first);
    assert!(!tls.reload_if_changed(NOW).unwrap());
    let second = write(folder.path());
    assert_eq!(served(&tls), first);
    assert!(tls.reload_if_changed(NOW).unwrap());
    assert_eq!(served(&tls), second);
    assert!(!tls.reload_if_changed(NOW).unwrap());
    tls.reload(NOW).unwrap();
    assert_eq!(served(&tls), second);
}

/// As on a file system that hangs for a while.
#[test]
fn a_read_that_is_over_after_a_later_one_does_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let renewed = || {
        let params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    };
    let (old, new) = (renewed(), renewed());
    put(folder.path(), &pem("CERTIFICATE", &old), &key_pem(&key));
    let tls = Tls::load(files(folder.path())).unwrap();
    let file = folder.path().join("certificate.pem");
    fs::remove_file(&file).unwrap();
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    let late = {
        let tls = tls.clone();
        std::thread::spawn(move || tls.reload(NOW))
    };
    // Open once the reader has it open too.
    let mut writer = fs::File::options().write(true).open(&file).unwrap();
    fs::remove_file(&file).unwrap();
    fs::write(&file, pem("CERTIFICATE", &new)).unwrap();
    assert!(tls.reload(NOW).unwrap());
    writer.write_all(pem("CERTIFICATE", &old).as_bytes()).unwrap();
    drop(writer);
    assert!(!late.join().unwrap().unwrap());
    assert_eq!(served(&tls), new);
}

#[test]
fn a_bad_pair_is_told_once_and_the_old_one_stays() {
    let folder = tempfile::tempdir().unwrap();
    let first = write(folder.path());
    let tls = Tls::load(files(folder.path())).unwrap();
    fs::write(folder.path().join("certificate.pem"), "no certificate").unwrap();
    assert!(matches!(tls.reload_if_changed(NOW), Err(TlsError::NoCertificate(_))));
    assert!(!tls.reload_if_changed(NOW).unwrap());
    fs::remove_file(folder.path().join("key.pem")).unwrap();
    assert!(tls.reload_if_changed(NOW).is_err());
    assert!(tls.reload(NOW).is_err());
    assert_eq!(served(&tls), first);
    let second = write(folder.path());
    assert!(tls.reload_if_changed(NOW).unwrap());
    assert_eq!(served(&tls), second);
}

#[test]
fn what_is_wrong_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let load = || Tls::load(files(folder.path())).unwrap_err().to_string();
    assert!(load().contains("certificate.pem: No such file"), "{}", load());
    write(folder.path());
    let key = fs::read_to_string(folder.path().join("key.pem")).unwrap();
    let certificate = fs::read_to_string(folder.path().join("certificate.pem")).unwrap();
    let other = key_pem(&rcgen::KeyPair::generate().unwrap());
    let leaf = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap().to_vec();
    let chain = |first: &str, next: &[u8]| format!("{first}{}", pem("CERTIFICATE", next));
    for (certificate, key, part) in [
        ("", key.as_str(), "certificate.pem: it holds no certificate"),
        (key.as_str(), key.as_str(), "certificate.pem: it holds no certificate"),
        (certificate.as_str(), "", "key.pem: it holds no private key"),
        (certificate.as_str(), certificate.as_str(), "key.pem: it holds no private key"),
        (
            certificate.as_str(),
            other.as_str(),
            "certificate.pem: its first certificate, which must",
        ),
        (&chain(&certificate, b"\x30\x03\x02\x01"), &key, "its certificate number 2 is not whole"),
        (&chain(&certificate, &[0; 3]), &key, "its certificate number 2 is not whole"),
        (&chain(&chain(&certificate, &leaf), &[leaf.as_slice(), &[0]].concat()), &key, "number 3"),
        (
            &format!("{certificate}-----BEGIN CERTIFICATE-----\nAAAA\n"),
            &key,
            "number 2 is not whole",
        ),
        (&certificate, &pem("PRIVATE KEY", &[0x30, 0]), "key.pem: the key is of a kind"),
    ] {
        put(folder.path(), certificate, key);
        assert!(load().contains(part), "{part}: {}", load());
        assert!(!load().contains("BEGIN"), "{}", load());
    }
    let long = " ".repeat(2 << 20);
    put(folder.path(), &long, &key);
    assert!(load().contains("certificate.pem: it has more than"), "{}", load());
}

#[test]
fn a_key_that_others_may_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let path = folder.path().join("key.pem");
    let about = fs::metadata(&path).unwrap();
    chown(&path, Some(about.uid()), Some(about.gid())).unwrap();
    for (mode, taken) in [
        (0o600, true),
        (0o400, true),
        (0o640, true),
        (0o644, false),
        (0o660, false),
        (0o602, false),
    ] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let loaded = Tls::load(files(folder.path()));
        assert_eq!(loaded.is_ok(), taken, "{mode:o}");
        assert!(taken || matches!(loaded, Err(TlsError::Open(_))), "{mode:o}");
    }
}

/// Writes a pair that is valid from one time to another; gives the certificate in DER.
fn write_valid(folder: &Path, from: i64, to: i64) -> Vec<u8> {
    let at = |seconds: i64| {
        SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap())
    };
    let key = rcgen::KeyPair::generate().unwrap();
    let mut parameters = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    (parameters.not_before, parameters.not_after) = (at(from).into(), at(to).into());
    let made = parameters.self_signed(&key).unwrap();
    put(folder, &pem("CERTIFICATE", made.der()), &key_pem(&key));
    made.der().to_vec()
}

#[test]
fn one_that_is_not_valid_takes_the_place_of_none_that_is() {
    let folder = tempfile::tempdir().unwrap();
    let write = |from, to| write_valid(folder.path(), NOW + from, NOW + to);
    let ended = write(-9, -1);
    let tls = Tls::load(files(folder.path())).unwrap();
    let told = Some(Validity { not_before: NOW - 9, not_after: NOW - 1 });
    assert_eq!((served(&tls), tls.validity()), (ended, told));
    // Neither is valid: what is there is taken.
    let early = write(1, 9);
    tls.reload(NOW).unwrap();
    assert_eq!(served(&tls), early);
    let valid = write(0, 0);
    tls.reload(NOW).unwrap();
    assert_eq!(served(&tls), valid);
    for (from, to) in [(-9, -1), (1, 9)] {
        write(from, to);
        assert!(matches!(tls.reload(NOW), Err(TlsError::NotValidNow(_))), "{from} {to}");
        assert_eq!(served(&tls), valid);
    }
    // Nobody has to say when its time has come, nor when that of the other is over.
    let early = write(5, 9);
    assert!(matches!(tls.reload_if_changed(NOW), Err(TlsError::NotValidNow(_))));
    assert!(!tls.reload_if_changed(NOW).unwrap());
    assert_eq!(served(&tls), valid);
    assert!(tls.reload_if_changed(NOW + 5).unwrap());
    assert_eq!(served(&tls), early);
    let ended = write(-9, -1);
    assert!(matches!(tls.reload_if_changed(NOW + 6), Err(TlsError::NotValidNow(_))));
    assert!(tls.reload_if_changed(NOW + 10).unwrap() && !tls.reload_if_changed(NOW + 11).unwrap());
    assert_eq!(served(&tls), ended);
}
