//! Pictures of pages in the documentation, taken by a browser. `SNAPSHOTS=overwrite` writes them anew; otherwise
//! those in `docs/img` have the size of what is taken now.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{command_lines, pages, session};

/// A picture of a page.
struct Picture {
    name: &'static str,
    /// Rules of style beside the page's own.
    style: &'static str,
    made_by: MadeBy,
    /// Width and height.
    size: [u32; 2],
}

enum MadeBy {
    /// `cellpace compare` with these arguments.
    Compare(&'static str),
    /// The command lines of a page of the documentation, which write `page.html`.
    Page(&'static str),
}

const PICTURES: [Picture; 3] = [
    Picture {
        name: "comparison",
        style: "",
        made_by: MadeBy::Compare(
            "--cc verus --cc copa --cc cubic --cc bbr --cc sprout --trace lte-driving --trace umts-driving --trace hspa-walking",
        ),
        size: [880, 1280],
    },
    Picture {
        name: "events",
        style: "header, #bar, #scatter, #cdf, #results, #flows, #profiles, footer { display: none !important } main { padding-top: 0 } section { margin-top: 16px }",
        made_by: MadeBy::Compare(
            "--cc verus --cc cubic --cc copa --cc bbr --trace lte-driving --handover 35s/500ms",
        ),
        size: [1155, 1065],
    },
    Picture {
        name: "nginx-cubic-copa",
        style: "",
        made_by: MadeBy::Page("docs/tutorial/nginx-cubic-copa.md"),
        size: [1150, 1270],
    },
];

impl Picture {
    /// The page as text; `None` where its commands do not run here.
    fn page(&self, folder: &Path) -> Option<String> {
        match self.made_by {
            MadeBy::Compare(arguments) => {
                let page = folder.join("page.html");
                let mut compare = Command::new(env!("CARGO_BIN_EXE_cellpace"));
                compare.args(["compare", "--duration", "60s", "--report"]).arg(&page);
                compare.args(arguments.split(' ')).stdout(Stdio::null());
                assert!(compare.status().unwrap().success(), "{}", self.name);
                Some(fs::read_to_string(&page).unwrap())
            }
            MadeBy::Page(name) => {
                let commands = command_lines::commands(&pages::Page::read(name.to_owned()));
                let needs_root = || Some(format!("{name} needs root"));
                let lacking = command_lines::lacking(name, &commands);
                if let Some(reason) =
                    lacking.or_else(|| needs_root().filter(|_| !session::is_root()))
                {
                    cellpace_testing::skip(reason);
                    return None;
                }
                let (ended, mut files) = session::run_and_keep(&commands, session::User::Same);
                let said: Vec<&str> = ended.iter().map(|one| one.output.as_str()).collect();
                let page = files.remove("page.html");
                Some(
                    String::from_utf8(page.unwrap_or_else(|| panic!("no page: {said:?}"))).unwrap(),
                )
            }
        }
    }
}

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
    for picture in &PICTURES {
        let Picture { name, style, size: [width, height], .. } = picture;
        let Some(text) = picture.page(folder.path()) else { continue };
        let page = folder.path().join(format!("{name}.html"));
        fs::write(&page, text.replacen("</head>", &format!("<style>{style}</style></head>"), 1))
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
        assert_eq!(size(&taken), picture.size, "{name}");
        assert_eq!(size(&shown), picture.size, "{name}: SNAPSHOTS=overwrite takes it anew");
    }
}

/// Width and height, which stand at the beginning of a PNG.
fn size(file: &Path) -> [u32; 2] {
    let bytes = fs::read(file).unwrap();
    assert!(bytes.starts_with(b"\x89PNG"), "{}", file.display());
    [16, 20].map(|at| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()))
}
