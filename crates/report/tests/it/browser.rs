//! Opens pages in a real browser: no error on the console, every series drawn. Uses `chromium`
//! from the path or that of the variable `CHROMIUM`; without a browser it prints that and passes.
//! With `PAGES=folder` the pages stay there, for a look with one's own eyes.

mod figures;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::example;
use cellpace_measure::InspectedSeries;
use cellpace_report::{
    Comparison, Document, Heatmap, HeatmapAxis, HeatmapCell, ResultDifference, page, to_json,
    write_atomically,
};
use serde_json::Value;

#[test]
fn six_controllers_over_300_s_are_all_drawn() {
    let Some(browser) = Browser::find() else { return };
    let seen = browser.open("six", &example::large("city-drive.down", 6, 1, 300), &[]);
    assert_eq!(seen["drawn"]["throughput"], 6);
    assert_eq!(seen["drawn"]["delay"], 6);
    assert_eq!(seen["drawn"]["cwnd"], 6);
    assert_eq!(seen["drawn"]["scatter"], 6);
    assert_eq!(seen["points"], 6);
    assert_eq!(seen["drawn"]["profiles"], 12);
    assert_eq!(seen["curves"], 12);
    every_line_has_ink(&seen, &[("throughput", 1, 7), ("delay", 1, 6), ("cwnd", 1, 6)]);
}

#[test]
fn values_inside_a_controller_are_drawn_when_they_are_chosen() {
    let Some(browser) = Browser::find() else { return };
    let mut comparison = example::large("city-drive.down", 3, 1, 60);
    for run in &mut comparison.runs[..2] {
        let series = run.series.as_mut().unwrap();
        let values = series.cwnd_packets[0].clone();
        series.inspected = vec![InspectedSeries { name: "set_point_ms".to_owned(), values }];
    }
    let choose = "<script>{ const pick = document.querySelector('#pick-inside select'); \
                  pick.value = 'set_point_ms'; pick.dispatchEvent(new Event('change')); }</script>";
    let page = html(&comparison).replacen("</body>", &format!("{choose}</body>"), 1);
    let file = browser.write("inside", &page);
    let dom = browser.dump("inside", &format!("file://{}#probe", file.display()), &[]);
    let seen = browser.outcome("inside", &dom, "data-cellpace=\"");
    assert_eq!(seen["drawn"]["cwnd"], 2, "the third controller does not have this value");
    assert_eq!(seen["drawn"]["throughput"], 3);
    assert_eq!(seen["errors"].as_array().unwrap().len(), 0);
}

#[test]
fn a_large_sweep_opens_with_its_first_trace() {
    let Some(browser) = Browser::find() else { return };
    let seen = browser.open("sweep", &example::sweep(), &[]);
    assert_eq!(seen["drawn"]["throughput"], 6);
    every_line_has_ink(&seen, &[("throughput", 1, 7), ("delay", 1, 6)]);
}

#[test]
fn flows_that_share_a_link_are_drawn_one_by_one() {
    let Some(browser) = Browser::find() else { return };
    let seen = browser.open("flows", &example::large("shared", 1, 4, 60), &[]);
    assert_eq!(seen["drawn"]["flows"], 4);
    assert_eq!(seen["drawn"]["cwnd"], 0, "windows of several flows stand with the flows");
    every_line_has_ink(&seen, &[("throughput", 1, 2), ("flows", 5, 5)]);
    assert_eq!((&seen["flowRows"], &seen["drawn"]["scatter"]), (&4.into(), &0.into()));
}

#[test]
fn a_phone_shows_the_page_without_scrolling_sideways() {
    let Some(browser) = Browser::find() else { return };
    let mut comparison = example::large("city-drive.down", 6, 1, 60);
    comparison.runs[2].cc = "a-controller-with-a-name:that=1,goes=2,on=3,and=4,on=5".to_owned();
    let page = browser.open_framed("phone", &comparison, 360);
    assert!(page["width"].as_u64().unwrap() <= 360);
    assert_eq!(page["overflow"], 0);
    assert_eq!(page["drawn"]["throughput"], 6);
    every_line_has_ink(&page, &[("throughput", 1, 7), ("delay", 1, 6)]);
}

#[test]
fn dark_mode_draws_in_the_colours_for_dark() {
    let Some(browser) = Browser::find() else { return };
    let dark = ["--blink-settings=preferredColorScheme=0"];
    let seen = browser.open("dark", &example::large("city-drive.down", 6, 1, 60), &dark);
    assert_eq!(seen["dark"], true);
    every_line_has_ink(&seen, &[("throughput", 1, 7), ("delay", 1, 6)]);
}

#[test]
fn odd_results_are_drawn_without_error() {
    let Some(browser) = Browser::find() else { return };
    let several = browser.open("seeds", &example::repeated(), &[]);
    assert_eq!(several["drawn"]["scatter"], 2);
    assert_eq!(several["pairs"], 1, "the second controller against the first, seed by seed");

    let mut nothing = example::comparison();
    nothing.runs.clear();
    assert_eq!(browser.open("nothing", &nothing, &[])["drawn"]["scatter"], 0);

    let mut odd = example::comparison();
    odd.runs[0].cc = "</script><b onclick=\"alert(1)\">&amp;'".to_owned();
    odd.runs[0].figures.packets = 0;
    let series = odd.runs[0].series.as_mut().unwrap();
    series.throughput_mbps.fill(0.0);
    series.queue_delay_p50_ms.fill(f32::NAN);
    series.queue_delay_p95_ms.fill(f32::NAN);
    series.cwnd_packets.clear();
    odd.runs[1].series = None;
    let seen = browser.open("odd", &odd, &[]);
    assert_eq!(seen["drawn"]["throughput"], 1);
    assert_eq!(seen["drawn"]["delay"], 0, "nothing was delivered, so there is no delay");
    assert_eq!(seen["drawn"]["scatter"], 1);

    // Only the second and the fourth bin have delays: no line, but dots.
    let mut lonely = example::comparison();
    lonely.runs.truncate(1);
    let nan = f32::NAN;
    let series = lonely.runs[0].series.as_mut().unwrap();
    series.queue_delay_p95_ms = vec![nan, 20.0, nan, 30.0, nan];
    series.capacity_mbps.clear();
    let seen = browser.open("lonely", &lonely, &[]);
    assert!(seen["inked"]["delay"][0][0].as_u64().unwrap() > 20, "{seen}");
}

#[test]
fn sorting_hiding_zooming_and_choosing_work() {
    let Some(browser) = Browser::find() else { return };
    let mut comparison = example::large("first.down", 3, 1, 60);
    comparison.runs.extend(example::large("second.down", 2, 1, 30).runs);
    let script = include_str!("browser/doing.js");
    let page = html(&comparison).replace("</body>", &format!("<script>{script}</script></body>"));
    let file = browser.write("doing", &page);
    let dom = browser.dump("doing", &format!("file://{}", file.display()), &[]);
    let seen = browser.outcome("doing", &dom, "data-cellpace=\"");
    let log = &seen["log"];
    let rising = serde_json::json!(["verus:r=2", "cubic", "copa:delta=0.1"]);
    let falling = serde_json::json!(["copa:delta=0.1", "cubic", "verus:r=2"]);
    assert_eq!(log["byDelay"], rising);
    assert_eq!(log["sorted"], serde_json::json!(["ascending 95 %ms"]));
    assert_eq!(log["backwards"], falling);
    assert_eq!(log["sortedBack"], serde_json::json!(["descending 95 %ms"]));
    assert_eq!(log["tips"], 1);
    let tip = log["tip"].as_str().unwrap();
    assert!(tip.contains("capacity") && tip.contains("cubic") && tip.contains("Mbit/s"), "{tip}");
    assert_eq!((&log["zoomed"], &log["unzoomed"]), (&true.into(), &true.into()));
    let words = |name: &str| log[name].as_str().unwrap();
    assert!(words("seen").starts_with("From ") && words("seen").contains("estimates from bins"));
    assert!(words("seenCdf").starts_with("From "), "{}", words("seenCdf"));
    assert_ne!(words("seenRow"), words("wholeRow"), "the zoom changes the figures");
    assert!(words("whole").starts_with("Bold"), "exact figures again: {}", words("whole"));
    assert_eq!(log["events"], serde_json::json!({ "timeout": 18, "loss": 240, "handover": 1 }));
    assert_eq!(log["eventsPressed"], serde_json::json!(["timeout", "handover"]));
    let marked = words("marked");
    assert!(marked.contains("timeout at 10, 30, 50 s") && marked.contains("handover at 30 s"));
    assert!(marked.contains("loss at ") && marked.contains(" and later"), "{marked}");
    assert!(words("eventsNote").contains("only some are marked"));
    assert_eq!((&log["hidden"]["throughput"], &log["hidden"]["scatter"]), (&2.into(), &2.into()));
    assert_eq!(log["stillZoomed"], true);
    assert_eq!(log["pressed"], "false");
    assert_eq!((&log["second"]["throughput"], &log["trace"]), (&2.into(), &"second.down".into()));
    assert_eq!(log["all"], 5);
}

/// The page of two controllers, seed by seed.
fn difference() -> String {
    let both = Document::read("both.json", to_json(&example::repeated())).unwrap();
    ResultDifference::of(&[both]).unwrap().page()
}

/// A page of every kind, by a name.
fn every_page() -> Vec<(&'static str, String)> {
    let mut traces = example::large("first.down", 3, 1, 60);
    traces.runs.extend(example::large("second.down", 3, 1, 60).runs);
    let of = |text: &str| page(&[Document::read("result.json", text).unwrap()]).unwrap();
    let transfer = include_str!("browser/transfer.json");
    let run = include_str!("browser/run.json");
    let others = kinds().map(|(name, text, _)| (name, of(&text)));
    let mut pages = vec![
        ("comparison", html(&example::large("city-drive.down", 6, 1, 60))),
        ("traces", html(&traces)),
        ("seeds", html(&example::repeated())),
        ("flows", html(&example::large("shared", 1, 4, 60))),
        ("difference", difference()),
        ("recv", of(&transfer.replace("\"role\": \"send\"", "\"role\": \"recv\""))),
        ("proxy", of(&run.replace("cellpace.run/1", "cellpace.proxy/1"))),
        ("claims", of(include_str!("browser/claims.json"))),
        ("transfers", html(&figures::transfers())),
        ("videos", html(&figures::videos())),
        ("many", html(&figures::many())),
        ("link", html(&figures::link())),
        ("plan", of(&figures::sweep(&["20ms", "80ms"]))),
        ("experiment", of(&figures::experiment())),
    ];
    pages.extend(others);
    #[cfg(feature = "parquet")]
    pages.push(("packets", page(&[figures::packets(2_000)]).unwrap()));
    pages
}

/// The page with a script at its end, which is not the first text that looks like one.
fn with_script(page: &str, script: &str) -> String {
    let end = page.rfind("</body>").unwrap();
    format!("{}<script>{script}</script>{}", &page[..end], &page[end..])
}

#[test]
#[ignore = "takes long; part of ./dev test --all"]
fn everything_that_a_reader_can_do_works_on_every_page() {
    let Some(browser) = Browser::find() else { return };
    let script = include_str!("browser/everything.js");
    let dark = ["--blink-settings=preferredColorScheme=0"];
    for (name, page) in every_page() {
        let page = with_script(&page, script);
        for (look, seen) in [
            ("1280 px, light", browser.open_page(&format!("do-{name}"), &page, &[])),
            ("1280 px, dark", browser.open_page(&format!("do-{name}-dark"), &page, &dark)),
            ("820 px", browser.open_page_framed(&format!("do-{name}-tablet"), &page, 820)),
            ("400 px", browser.open_page_framed(&format!("do-{name}-phone"), &page, 400)),
        ] {
            let did = &seen["did"];
            println!("{name}, {look}: {did}");
            assert_eq!(seen["errors"], serde_json::json!([]), "{name}, {look}");
            assert_eq!(did["requests"], serde_json::json!([]), "{name}, {look}");
            assert_eq!(did["wrong"], serde_json::json!([]), "{name}, {look}: a saved chart");
            assert!(did["wide"].as_i64().unwrap() <= 0, "{name}, {look}: {did}");
            let plots = did["plots"].as_u64().unwrap();
            assert_eq!(did["tips"], plots, "{name}, {look}: each chart reads its values");
            assert_eq!(did["spoken"], plots, "{name}, {look}: arrow keys say the values");
            let still = did["bars"].as_u64().unwrap();
            assert_eq!(did["zooms"], plots - still, "{name}, {look}: what has an axis is zoomed");
            // Each file twice, and those that are no canvas have theirs, too.
            let saved = |ending: &str| did["files"][ending].as_u64().unwrap_or(0);
            assert!(
                ["svg", "png", "pdf"].iter().all(|ending| saved(ending) >= 2 * plots),
                "{name}, {look}: {did}"
            );
        }
    }
}

#[test]
#[ignore = "takes long; part of ./dev test --all"]
fn printed_on_a4_nothing_is_cut() {
    let Some(browser) = Browser::find() else { return };
    let script = include_str!("browser/paper.js");
    for (name, page) in every_page() {
        let seen = browser.open_page(&format!("paper-{name}"), &with_script(&page, script), &[]);
        let paper = &seen["paper"];
        assert!(paper["parts"].as_u64().unwrap() >= 1, "{name}: {paper}");
        assert_eq!(paper["cut"], serde_json::json!([]), "{name}");
        let Some(printed) = browser.print(name, &page) else { continue };
        println!("{name}: {} pages", printed.matches('\u{c}').count());
        let printed: String = printed.split_whitespace().collect();
        for last in paper["last"].as_array().unwrap().iter().filter_map(Value::as_str) {
            // The signs of sorting are not printed.
            assert!(printed.contains(last), "{name}: `{last}` is not on paper");
        }
    }
}

/// One document of each kind that is no comparison, with what its page draws: charts, tables, maps.
fn kinds() -> [(&'static str, String, [u64; 3]); 6] {
    let map = serde_json::json!({ "map": heatmap(300), "note": "A note." });
    let mut table: Value = serde_json::from_str(include_str!("browser/table.json")).unwrap();
    table["pictures"] = vec![map].into();
    [
        ("transfer", include_str!("browser/transfer.json").to_owned(), [4, 1, 0]),
        ("run", include_str!("browser/run.json").to_owned(), [3, 1, 0]),
        ("attach", include_str!("browser/attach.json").to_owned(), [0, 1, 0]),
        ("probe", include_str!("browser/probe.json").to_owned(), [5, 4, 0]),
        ("table", table.to_string(), [0, 2, 1]),
        ("conform", include_str!("browser/conform.json").to_owned(), [4, 4, 0]),
    ]
}

#[test]
fn a_page_of_each_kind_opens_in_light_and_dark_and_on_a_phone() {
    let Some(browser) = Browser::find() else { return };
    for (name, text, [charts, tables, maps]) in kinds() {
        let document = Document::read(&format!("{name}.json"), &text).unwrap();
        let page = page(&[document]).unwrap();
        assert!(page.len() < 1_500_000, "{name}: {}", page.len());
        let (_, title) = page.split_once("<title>").unwrap();
        assert!(!title.starts_with("</title>"), "{name} has a title");
        let dark = ["--blink-settings=preferredColorScheme=0"];
        for (name, seen) in [
            (name, browser.open_page(name, &page, &[])),
            (name, browser.open_page(&format!("{name}-dark"), &page, &dark)),
            (name, browser.open_page_framed(&format!("{name}-phone"), &page, 400)),
        ] {
            assert_eq!(seen["charts"], charts, "{name}");
            assert_eq!(seen["tables"], tables, "{name}");
            assert_eq!(seen["maps"].as_array().unwrap().len() as u64, maps, "{name}");
            seen["maps"].as_array().unwrap().iter().for_each(every_cell_has_its_point);
            assert!(seen["overflow"].as_i64().unwrap() <= 0, "{name}: {}", seen["overflow"]);
        }
    }
}

#[test]
fn results_of_one_kind_stand_side_by_side_and_those_of_several_in_sections() {
    let Some(browser) = Browser::find() else { return };
    let read = |name: &str, text: &str| Document::read(name, text).unwrap();
    let transfer = include_str!("browser/transfer.json");
    let other = transfer.replace("verus", "copa");
    let pair = [read("a/cubic.json", transfer), read("b/copa.json", &other)];
    let seen = browser.open_page("pair", &page(&pair).unwrap(), &[]);
    assert_eq!((&seen["charts"], &seen["tables"]), (&4.into(), &1.into()));
    let comparison = read("c.json", &to_json(&example::comparison()));
    let all = [pair[0].clone(), comparison, read("p.json", include_str!("browser/probe.json"))];
    let seen = browser.open_page("several", &page(&all).unwrap(), &[]);
    assert_eq!((&seen["charts"], &seen["tables"]), (&9.into(), &5.into()));
    assert_eq!(seen["drawn"]["throughput"], 2);
}

#[test]
fn pages_of_papers_cut_nothing_and_lead_to_their_claims() {
    let Some(browser) = Browser::find() else { return };
    let claims = include_str!("browser/claims.json");
    let page = page(&[Document::read("claims.json", claims).unwrap()]).unwrap();
    assert!(page.len() < 3_000_000);
    let dark = ["--blink-settings=preferredColorScheme=0"];
    for (look, seen) in [
        ("light", browser.open_page("claims", &page, &[])),
        ("dark", browser.open_page("claims-dark", &page, &dark)),
        ("400 px", browser.open_page_framed("claims-phone", &page, 400)),
    ] {
        assert_eq!((&seen["charts"], &seen["maps"][1]), (&7.into(), &Value::Null), "{look}");
        // The claim's map has three cells.
        assert_eq!(seen["maps"][0]["points"], 3, "{look}");
        assert_eq!(seen["cut"], serde_json::json!([]), "{look}");
        assert!(seen["overflow"].as_i64().unwrap() <= 0, "{look}: {}", seen["overflow"]);
        let links = serde_json::json!(["#made-fig1", "#made-fig2", "verus.html"]);
        assert_eq!(seen["links"], links, "{look}: a link leads to nothing else");
        let headings = seen["headings"].as_array().unwrap();
        let distinct: std::collections::HashSet<_> = headings.iter().collect();
        assert_eq!((headings.len(), distinct.len()), (3, 3), "{look}: {headings:?}");
    }
}

#[test]
fn six_controllers_on_ten_traces_open_at_once_and_stay_small() {
    let Some(browser) = Browser::find() else { return };
    let mut sweep = example::large("t0", 6, 1, 300);
    let first = std::mem::take(&mut sweep.runs);
    for trace in 0..10 {
        sweep.runs.extend(first.iter().cloned().map(|mut run| {
            run.trace = format!("t{trace}");
            run
        }));
    }
    let page = html(&sweep);
    println!("6 x 10 x 300 s: {} bytes", page.len());
    assert!(page.len() < 3_000_000, "{}", page.len());
    let seen = browser.open_page("sixty", &page, &[]);
    assert_eq!((&seen["matrix"], &seen["drawn"]["cdf"]), (&60.into(), &6.into()));
    assert_eq!(seen["panels"], 11, "one of each trace and one of all");
    // How long it took is printed: on a machine with other work it says nothing.
}

#[test]
fn the_command_of_each_condition_unfolds_and_folds_again() {
    let Some(browser) = Browser::find() else { return };
    for (name, rtts) in
        [("few", &["20ms", "80ms"][..]), ("many", &["1ms", "2ms", "3ms", "4ms", "5ms"])]
    {
        let text = figures::sweep(rtts);
        let page = page(&[Document::read("plan.jsonl", text).unwrap()]).unwrap();
        let page = with_script(&page, include_str!("browser/unfolding.js"));
        for (look, seen) in [
            ("1280 px", browser.open_page(&format!("unfold-{name}"), &page, &[])),
            ("400 px", browser.open_page_framed(&format!("unfold-{name}-phone"), &page, 400)),
        ] {
            let unfolded = &seen["unfolded"];
            let texts: Vec<&str> =
                unfolded["texts"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
            // A row of two controllers each, and their condition.
            assert_eq!(texts.len(), 6 * rtts.len(), "{name}, {look}: {seen}");
            assert_eq!(
                texts[0],
                format!(
                    "cellpace compare --trace lte --rtt {} --queue codel --cc copa --cc cubic --seed 1",
                    rtts[0]
                )
            );
            assert_eq!(unfolded["wrong"], serde_json::json!([]), "{name}, {look}");
            assert_eq!(seen["errors"], serde_json::json!([]), "{name}, {look}");
            assert!(
                seen["overflow"].as_i64().unwrap() <= 0,
                "{name}, {look}: {}",
                seen["overflow"]
            );
        }
    }
}

#[test]
fn ten_thousand_flows_are_no_table_that_freezes() {
    let Some(browser) = Browser::find() else { return };
    let mut many = example::large("many", 1, 17, 10);
    let flow = many.runs[0].figures.per_flow[0].clone();
    many.runs[0].figures.per_flow = vec![flow; 10_000];
    many.runs[0].flows = 10_000;
    let page = html(&many);
    assert!(page.len() < 1_500_000, "{}", page.len());
    let seen = browser.open_page("many", &page, &[]);
    assert_eq!(seen["flowRows"], 200);
    assert_eq!(seen["drawn"]["throughput"], 1);
}

#[test]
fn an_address_shows_the_view_that_it_names() {
    let Some(browser) = Browser::find() else { return };
    let mut comparison = example::large("first.down", 3, 1, 60);
    comparison.runs.extend(example::large("second & last", 2, 1, 30).runs);
    let file = browser.write("view", &html(&comparison));
    let view =
        "trace=second%20%26%20last&hide=%5B%22cubic%22%5D&cdf=rtt&figure=utilization&zoom=5,20";
    let dom = browser.dump("view", &format!("file://{}#{view}", file.display()), &[]);
    let seen = browser.outcome("view", &dom, "data-cellpace=\"");
    assert_eq!((&seen["drawn"]["throughput"], &seen["drawn"]["cdf"]), (&1.into(), &1.into()));
    assert!(dom.contains("<dd>second &amp; last</dd>"), "the other trace is shown");
}

#[test]
fn a_part_of_a_page_stands_alone_in_a_frame_and_prints_as_wide_as_a_column() {
    let Some(browser) = Browser::find() else { return };
    let mut comparison = example::large("city-drive.down", 6, 1, 60);
    comparison.runs.iter_mut().for_each(|run| run.queue = "droptail:1000packets".to_owned());
    let script = "setTimeout(() => { \
        const seen = (part) => part.getClientRects().length > 0; \
        cellpace.parts = [...document.querySelectorAll('main section')].filter(seen).map((part) => part.id || part.textContent.slice(0, 30)); \
        cellpace.alert = document.querySelector('[role=alert]')?.textContent; \
        window.print = () => { cellpace.sheet = { width: document.querySelector('#sheet svg').getAttribute('width'), \
            words: document.querySelector('#sheet').textContent, title: document.title }; }; \
        document.querySelectorAll('#cdf .files button')[1].click(); \
        document.documentElement.dataset.cellpace = JSON.stringify(cellpace); }, 60);";
    let page = with_script(&html(&comparison), script);
    let file = browser.write("embedded", &page);
    let open = |name: &str, view: &str| {
        let dom = browser.dump(name, &format!("file://{}{view}", file.display()), &[]);
        browser.outcome(name, &dom, "data-cellpace=\"")
    };
    for view in ["#embed=cdf", "?embed=cdf", "#embed=cdf&cdf=rtt"] {
        assert_eq!(open("embedded", view)["parts"], serde_json::json!(["cdf"]), "{view}");
    }
    let all = open("whole", "");
    assert!(all["parts"].as_array().unwrap().len() > 4, "{all}");
    let sheet = &all["sheet"];
    assert_eq!(sheet["width"], "340");
    let words = sheet["words"].as_str().unwrap();
    assert!(words.contains("droptail:1000packets") && words.contains("Duration 60 s"), "{words}");
    assert!(sheet["title"].as_str().unwrap().contains("Distribution"), "{sheet}");
    let wrong = open("wrong", "#embed=nothing");
    assert!(wrong["alert"].as_str().unwrap().contains("there are: "), "{wrong}");

    let probe = page_of_probe();
    let file = browser
        .write("embedded-probe", &with_script(&probe, &script.replace("#cdf .files", ".files")));
    let dom = browser.dump(
        "embedded-probe",
        &format!("file://{}#embed=one-way-delay", file.display()),
        &[],
    );
    let seen = browser.outcome("embedded-probe", &dom, "data-cellpace=\"");
    assert_eq!(seen["parts"].as_array().unwrap().len(), 1, "{seen}");
}

fn page_of_probe() -> String {
    page(&[Document::read("p.json", include_str!("browser/probe.json")).unwrap()]).unwrap()
}

/// Rules of WCAG 2.1 AA that machines can check, by axe-core: `AXE_CORE` names its axe.min.js.
#[test]
fn pages_keep_the_rules_of_accessibility() {
    let Some(browser) = Browser::find() else { return };
    let Some(axe) = std::env::var_os("AXE_CORE") else {
        cellpace_testing::skip("no axe-core");
        return;
    };
    let axe = std::fs::read_to_string(axe).unwrap();
    let run = include_str!("browser/axe.js");
    for (name, page) in every_page() {
        let page = with_script(&page, &format!("{axe}</script><script>{run}"));
        for flags in [&[][..], &["--blink-settings=preferredColorScheme=0"]] {
            let seen = browser.open_page(&format!("axe-{name}"), &page, flags);
            assert_eq!(seen["axe"], serde_json::json!([]), "{name} {flags:?}");
        }
        let seen = browser.open_page_framed(&format!("axe-{name}-phone"), &page, 400);
        assert_eq!(seen["axe"], serde_json::json!([]), "{name} at 400 px");
    }
}

/// The page of a comparison as the program makes it: by way of its JSON.
fn html(comparison: &Comparison) -> String {
    page(&[Document::read("result.json", to_json(comparison)).unwrap()]).unwrap()
}

fn heatmap(len: u32) -> Heatmap {
    let axis = |title: &str| HeatmapAxis {
        title: title.to_owned(),
        len,
        labels: (0..len).map(|i| (f64::from(i) + 0.5, i.to_string())).collect(),
        lines: (1..len / 10).map(|i| 10 * i).collect(),
    };
    let cell = |i: u32| HeatmapCell {
        row: i % len,
        column: i / len,
        value: 1.0 / f64::from(1 + (i % len).abs_diff(i / len)),
    };
    Heatmap {
        title: "a <&> b".to_owned(),
        unit: "share".to_owned(),
        columns: axis("to"),
        rows: axis("from"),
        cells: (0..len * len).step_by(7).map(cell).collect(),
    }
}

/// What the drawing of [`heatmap`] of 300 shows is what its JSON has: every cell, and its scale.
fn every_cell_has_its_point(seen: &Value) {
    let map = heatmap(300);
    assert_eq!(seen["points"], map.cells.len());
    let words: Vec<&str> =
        seen["words"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    // Every twentieth label has room; values go from 1/300 to 1.
    for shown in ["from", "to", "share", "0", "20", "280", "0.01", "0.3", "1"] {
        assert!(words.contains(&shown), "{shown}: {words:?}");
    }
    assert!(!words.contains(&"21") && !words.iter().any(|word| word.contains("NaN")), "{words:?}");
}

/// `expected` names a section, its charts, and the lines (areas among them) of each.
fn every_line_has_ink(seen: &Value, expected: &[(&str, usize, usize)]) {
    for (section, charts, lines) in expected {
        let inked = seen["inked"][section].as_array().unwrap();
        assert_eq!(inked.len(), *charts, "{section}");
        let counts: Vec<u64> =
            inked[0].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
        assert_eq!(counts.len(), *lines, "{section}");
        assert!(counts.iter().all(|pixels| *pixels > 40), "{section}: {counts:?}");
    }
}

struct Browser {
    program: PathBuf,
    folder: tempfile::TempDir,
}

impl Browser {
    fn find() -> Option<Self> {
        let named = std::env::var_os("CHROMIUM").map(PathBuf::from);
        let program = named.unwrap_or_else(|| PathBuf::from("chromium"));
        let version = Command::new(&program).arg("--version").stdout(Stdio::null()).status();
        if version.is_err() {
            cellpace_testing::skip("no browser");
            return None;
        }
        Some(Self { program, folder: tempfile::tempdir().unwrap() })
    }

    /// The page's report after drawing.
    fn open(&self, name: &str, comparison: &Comparison, flags: &[&str]) -> Value {
        self.open_page(name, &html(comparison), flags)
    }

    fn open_page(&self, name: &str, page: &str, flags: &[&str]) -> Value {
        let file = self.write(name, page);
        let dom = self.dump(name, &format!("file://{}#probe", file.display()), flags);
        self.outcome(name, &dom, "data-cellpace=\"")
    }

    /// The same in a frame of `width` pixels: the browser's own window does not get so narrow.
    fn open_framed(&self, name: &str, comparison: &Comparison, width: u32) -> Value {
        self.open_page_framed(name, &html(comparison), width)
    }

    fn open_page_framed(&self, name: &str, page: &str, width: u32) -> Value {
        let file = self.write(name, page);
        let frame = format!(
            "<!doctype html><iframe style='border:0;width:{width}px;height:800px' src='{}#probe'></iframe>\
             <script>onmessage = (event) => document.body.dataset.outcome = event.data</script>",
            file.file_name().unwrap().to_string_lossy()
        );
        // The frame passes on what it has published; the page itself knows nothing of this.
        let spy = "<script>new MutationObserver(() => parent.postMessage(\
                   document.documentElement.dataset.cellpace, '*'))\
                   .observe(document.documentElement, {attributes: true})</script><script type=\"application/json\"";
        let page = std::fs::read_to_string(&file).unwrap();
        write_atomically(
            &file,
            page.replacen("<script type=\"application/json\"", spy, 1).as_bytes(),
        )
        .unwrap();
        let framed = self.write(&format!("{name}-frame"), &frame);
        let dom = self.dump(name, &format!("file://{}", framed.display()), &[]);
        self.outcome(name, &dom, "data-outcome=\"")
    }

    fn write(&self, name: &str, page: &str) -> PathBuf {
        let kept = std::env::var_os("PAGES").map(PathBuf::from);
        let folder = kept.as_deref().unwrap_or(self.folder.path());
        let file = folder.join(format!("{name}.html"));
        write_atomically(&file, page.as_bytes()).unwrap();
        file
    }

    fn dump(&self, name: &str, address: &str, flags: &[&str]) -> String {
        let profile = self.folder.path().join(format!("profile-{name}"));
        let output = Command::new(&self.program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"])
            .args(["--no-first-run", "--disable-background-networking"])
            .args(["--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"])
            .args(["--enable-logging=stderr", "--window-size=1280,900"])
            .args(["--virtual-time-budget=10000", "--dump-dom"])
            .args(flags)
            .arg(user_data(&profile))
            .arg(address)
            .output()
            .unwrap();
        let log = String::from_utf8_lossy(&output.stderr);
        let messages: Vec<&str> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
        assert!(messages.is_empty(), "{name}: the console has {messages:#?}");
        assert!(output.status.success(), "{name}: {}\n{log}", output.status);
        String::from_utf8(output.stdout).unwrap()
    }

    /// The text of the page as printed, a form feed after each sheet. What lies beside the paper is not
    /// in it.
    fn print(&self, name: &str, page: &str) -> Option<String> {
        let (file, pdf) = (self.write(name, page), self.folder.path().join(format!("{name}.pdf")));
        let flags = ["--no-pdf-header-footer", &format!("--print-to-pdf={}", pdf.display())];
        self.dump(&format!("{name}-pdf"), &format!("file://{}", file.display()), &flags);
        let info = Command::new("pdfinfo").arg(&pdf).output();
        let text =
            Command::new("pdftotext").args(["-raw", "-enc", "UTF-8"]).arg(&pdf).arg("-").output();
        let (Ok(info), Ok(text)) = (info, text) else {
            cellpace_testing::skip("no pdftotext for what is printed");
            return None;
        };
        let info = String::from_utf8_lossy(&info.stdout).into_owned();
        assert!(info.contains("(A4)"), "{name}: {info}");
        Some(String::from_utf8(text.stdout).unwrap())
    }

    fn outcome(&self, name: &str, dom: &str, attribute: &str) -> Value {
        let (_, rest) = dom.split_once(attribute).expect("the page has reported what it drew");
        let (outcome, _) = rest.split_once('"').unwrap();
        let outcome = outcome
            .replace("&quot;", "\"")
            .replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&amp;", "&");
        let outcome: Value = serde_json::from_str(&outcome).unwrap();
        if outcome["drawMs"].is_number() {
            println!(
                "{name}: drawn in {} ms, open after {} ms",
                outcome["drawMs"], outcome["openMs"]
            );
        }
        assert_eq!(outcome["errors"], serde_json::json!([]), "{name}");
        assert_eq!(outcome["done"], true, "{name}");
        outcome
    }
}

fn user_data(profile: &Path) -> String {
    format!("--user-data-dir={}", profile.display())
}
