//! Pictures of pages in the documentation, taken by a browser. `SNAPSHOTS=overwrite` writes them anew; otherwise
//! those in `docs/img` have the size of what is taken now.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{command_lines, pages, session};
use crate::program::dashboard::Dashboard;
use crate::program::{self, Folder, signal};

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
    /// `cellpace run --dashboard` with six downloads over an emulated link.
    Dashboard,
}

const PICTURES: [Picture; 4] = [
    Picture { name: "dashboard", style: "", made_by: MadeBy::Dashboard, size: [1100, 1000] },
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
    /// Whether it could be taken here.
    fn is_taken(&self, browser: &OsStr, folder: &Path, taken: &Path) -> bool {
        if let MadeBy::Dashboard = self.made_by {
            return is_dashboard_taken(browser, folder, taken, self.size);
        }
        let Some(text) = self.page(folder) else { return false };
        let Self { name, style, size: [width, height], .. } = self;
        let page = folder.join(format!("{name}.html"));
        fs::write(&page, text.replacen("</head>", &format!("<style>{style}</style></head>"), 1))
            .unwrap();
        let status = Command::new(browser)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"])
            .args(["--no-first-run", "--disable-dev-shm-usage", "--hide-scrollbars"])
            .arg("--virtual-time-budget=10000")
            .arg(format!("--user-data-dir={}", folder.join("profile").display()))
            .arg(format!("--window-size={width},{height}"))
            .arg(format!("--screenshot={}", taken.display()))
            .arg(format!("file://{}", page.display()))
            .stderr(Stdio::null())
            .status();
        assert!(status.unwrap().success(), "{name}");
        true
    }

    /// The page as text; `None` where its commands do not run here.
    fn page(&self, folder: &Path) -> Option<String> {
        match self.made_by {
            MadeBy::Dashboard => None,
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
        let name = picture.name;
        let taken = folder.path().join(format!("{name}.png"));
        if !picture.is_taken(&browser, folder.path(), &taken) {
            continue;
        }
        let shown = pages::root().join(format!("docs/img/{name}.png"));
        if is_wanted {
            fs::copy(&taken, &shown).unwrap();
        }
        assert_eq!(size(&taken), picture.size, "{name}");
        assert_eq!(size(&shown), picture.size, "{name}: SNAPSHOTS=overwrite takes it anew");
    }
}

/// Six downloads under Verus over a trace, seen for forty seconds.
fn is_dashboard_taken(browser: &OsStr, profile: &Path, taken: &Path, size: [u32; 2]) -> bool {
    let is_lacking = |program: &&str| !session::is_installed(program);
    if let Some(program) = ["node", "python3", "curl"].iter().find(|each| is_lacking(each)) {
        cellpace_testing::skip(format!("no {program} for the picture of the dashboard"));
        return false;
    }
    let folder = Folder::new();
    fs::File::create(folder.path("big")).unwrap().set_len(1 << 30).unwrap();
    let far = "exec cellpace run --cc verus --driver gate --dashboard -- python3 -m http.server 8000 2>far";
    let near = "for i in 1 2 3 4 5 6; do \
                curl -s --retry 9 --retry-all-errors --retry-delay 1 -o /dev/null http://$CELLPACE_HOST:8000/big & \
                done; wait";
    let bin = Path::new(env!("CARGO_BIN_EXE_cellpace")).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut link = folder.command(["link", "--trace", "lte-driving", "--rtt", "40ms"]);
    link.args(["--far", far, "--", "sh", "-c", near]);
    link.env("PATH", format!("{}:{path}", bin.display())).stderr(Stdio::null());
    let mut link = link.spawn().unwrap();
    let Some(dashboard) = Dashboard::behind_link(&mut link, &folder.path("far")) else {
        return false;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/documentation/dashboard.mjs");
    let mut node = Command::new("node");
    node.arg(script).arg(browser).arg(profile.join("dashboard")).arg(dashboard.link()).arg(taken);
    let status = node.args(size.map(|side| side.to_string())).status().unwrap();
    signal(&link, "TERM");
    program::code(&mut link);
    assert!(status.success(), "the picture of the dashboard");
    true
}

/// Width and height, which stand at the beginning of a PNG.
fn size(file: &Path) -> [u32; 2] {
    let bytes = fs::read(file).unwrap();
    assert!(bytes.starts_with(b"\x89PNG"), "{}", file.display());
    [16, 20].map(|at| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()))
}
