//! What a program that was built without some of its features says of them: part of
//! `./dev test --all`, which builds one with none.

use crate::program::Folder;

/// Runs a command that needs a feature, if the program does not have it.
fn is_named(folder: &Folder, feature: &str, has_it: bool, args: &str) {
    if has_it {
        return cellpace_testing::skip(format_args!("built with the feature `{feature}`"));
    }
    folder
        .run(args)
        .complains(1, &format!("this cellpace was built without the feature `{feature}`"));
}

#[test]
fn features_that_are_missing_are_named() {
    let folder = Folder::new();
    let compare = "compare --trace constant:1mbit --duration 3s --cc cubic";
    folder.good(compare);
    let has_parquet = cfg!(feature = "parquet");
    is_named(&folder, "parquet", has_parquet, &format!("{compare} --log packets.parquet"));
    is_named(&folder, "parquet", has_parquet, &format!("{compare} --transfers t.parquet"));
    is_named(&folder, "parquet", has_parquet, "link --log packets.parquet -- true");
    is_named(&folder, "kernel", cfg!(feature = "kernel"), "kernel install");
    is_named(&folder, "kernel", cfg!(feature = "kernel"), "attach --in 80");
    if !cfg!(feature = "kernel") {
        let said = folder.good("kernel status");
        assert!(said.contains("built without") && !said.contains("root installs it"), "{said}");
    }
    folder.write("mine.wasm", "");
    if !cfg!(feature = "plugin") {
        let said =
            "`plugin`: this cellpace was built without the feature `plugin`; packages have it";
        folder.refused("compare --trace constant:1mbit --cc plugin:mine.wasm", said);
    }
    std::fs::remove_file(folder.path("mine.wasm")).unwrap();
    is_named(&folder, "quic", cfg!(feature = "quic"), "recv --quic");
    if !has_parquet {
        assert_eq!(folder.names(), [""; 0], "nothing else is left");
    }
}
