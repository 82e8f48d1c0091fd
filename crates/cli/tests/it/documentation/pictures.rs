//! Pictures of pages in the documentation, taken by a browser. `SNAPSHOTS=overwrite` writes them anew; otherwise
//! those in `docs/img` have the size of what is taken now.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::pages;

/// What is hidden of a page, the arguments of its `cellpace compare`, and the size of its picture.
const PICTURES: [(&str, &str, &str, [u32; 2]); 2] = [
    (
        "comparison",
        "",
        "--cc verus --cc copa --cc cubic --cc bbr --cc sprout --trace lte-driving --trace umts-driving --trace hspa-walking",
        [880, 1280],
    ),
    (
        "events",
        "header, #bar, #scatter, #cdf, #results, #flows, #profiles, footer { display: none !important } main { padding-top: 0 } section { margin-top: 16px }",
        "--cc verus --cc cubic --cc copa --cc bbr --trace lte-driving --handover 35s/500ms",
        [1155, 1065],
    ),
];

#[test]
#[ignore = "takes long; part of ./dev test --all"]
fn pictures_show_pages_as_they_are() {
    let browser = std::env::var_os("CHROMIUM").unwrap_or_else(|| "chromium".into());
    if Command::new(&browser).arg("--version").stdout(Stdio::null()).status().is_err() {
        cellpace_testing::skip("no browser");
        return;
    }
    let is_wanted = std::env::var("SNAPSHOTS").is_ok_and(|value| value == "overwrite");
    let folder = tempfile::tempdir().unwrap();
    for (name, hidden, arguments, [width, height]) in PICTURES {
        let page = folder.path().join(format!("{name}.html"));
        let mut compare = Command::new(env!("CARGO_BIN_EXE_cellpace"));
        compare
            .args(["compare", "--duration", "60s", "--report"])
            .arg(&page)
            .args(arguments.split(' '));
        assert!(compare.stdout(Stdio::null()).status().unwrap().success(), "{name}");
        let text = fs::read_to_string(&page).unwrap();
        fs::write(&page, text.replacen("</head>", &format!("<style>{hidden}</style></head>"), 1))
            .unwrap();
        let taken = folder.path().join(format!("{name}.png"));
        let status = Command::new(&browser)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
            ])
            .args(["--disable-dev-shm-usage", "--hide-scrollbars", "--virtual-time-budget=10000"])
            .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
            .arg(format!("--window-size={width},{height}"))
            .arg(format!("--screenshot={}", taken.display()))
            .arg(format!("file://{}", page.display()))
            .stderr(Stdio::null())
            .status();
        assert!(status.unwrap().success(), "{name}");
        let shown = pages::root().join(format!("docs/img/{name}.png"));
        if is_wanted {
            fs::copy(&taken, &shown).unwrap();
        }
        assert_eq!(size(&taken), [width, height], "{name}");
        assert_eq!(size(&shown), [width, height], "{name}: SNAPSHOTS=overwrite takes it anew");
    }
}

/// Width and height, which stand at the beginning of a PNG.
fn size(file: &Path) -> [u32; 2] {
    let bytes = fs::read(file).unwrap();
    assert!(bytes.starts_with(b"\x89PNG"), "{}", file.display());
    [16, 20].map(|at| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()))
}
