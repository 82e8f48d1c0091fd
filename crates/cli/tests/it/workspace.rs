//! The rules of the house that a compiler does not check: the table of crates in CONTRIBUTING.md is
//! true, dependencies point down only, there is no circle between the files of a crate, and what is published can be.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree, Visibility};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Names of the crates in the table of CONTRIBUTING.md, from the top.
fn table() -> Vec<String> {
    let page = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let rows = page.lines().skip_while(|line| !line.starts_with("| crate |")).skip(2);
    let rows = rows.take_while(|line| line.starts_with("| `"));
    rows.map(|row| row.split('`').nth(1).unwrap().to_owned()).collect()
}

/// Runs cargo at the root, without the network; returns what it prints.
fn cargo(args: &[&str]) -> Vec<u8> {
    let program = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let output = Command::new(program).args(args).arg("--offline").current_dir(root()).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// What cargo knows of each crate of the workspace.
fn packages() -> Vec<Value> {
    let output = cargo(&["metadata", "--format-version", "1", "--no-deps"]);
    let mut metadata: Value = serde_json::from_slice(&output).unwrap();
    serde_json::from_value(metadata["packages"].take()).unwrap()
}

fn folder(package: &Value) -> PathBuf {
    Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap().to_owned()
}

/// The dependencies of a crate on others of the workspace, but for its tests.
fn own_dependencies(package: &Value) -> impl Iterator<Item = &Value> {
    let all = package["dependencies"].as_array().unwrap().iter();
    all.filter(|one| one["path"].is_string() && one["kind"] != "dev")
}

/// The crates below `crates/`, each with those of the workspace that it depends on.
fn crates() -> BTreeMap<String, BTreeSet<String>> {
    let mut found = BTreeMap::new();
    for package in packages() {
        let folder = folder(&package);
        let Ok(name) = folder.strip_prefix(root().join("crates")) else { continue };
        let below = own_dependencies(&package).map(|dependency| {
            let path = Path::new(dependency["path"].as_str().unwrap());
            path.file_name().unwrap().to_str().unwrap().to_owned()
        });
        found.insert(name.to_str().unwrap().to_owned(), below.collect());
    }
    found
}

#[test]
fn contributing_names_all_crates_in_the_order_of_their_floors() {
    let (table, crates) = (table(), crates());
    let named: BTreeSet<_> = table.iter().cloned().collect();
    assert_eq!(named, crates.keys().cloned().collect());
    assert_eq!(named.len(), table.len(), "each once");
    for (row, name) in table.iter().enumerate() {
        let below = &table[..row];
        let wrong: Vec<_> = crates[name].iter().filter(|one| !below.contains(one)).collect();
        assert!(wrong.is_empty(), "{name} stands above {wrong:?} in the table, which it uses");
    }
}

/// One file of a crate: what it defines and what it uses.
#[derive(Default)]
struct SourceFile {
    /// Names at the top level, of inner modules too.
    items: BTreeSet<String>,
    /// What `use` brings in, by its name there, as a path from the crate's root.
    imports: BTreeMap<String, Vec<String>>,
    /// Modules of which all is imported.
    globs: Vec<Vec<String>>,
    /// Paths from the crate's root that the code mentions.
    uses: BTreeSet<Vec<String>>,
}

/// The files of a crate by their module's path.
type Files = BTreeMap<Vec<String>, SourceFile>;

struct Reader<'a> {
    /// Where the file stands, and then the modules inside of it.
    module: Vec<String>,
    depth: usize,
    modules: &'a BTreeSet<Vec<String>>,
    file: SourceFile,
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || matches!(&attribute.meta, syn::Meta::List(list)
                if list.path.is_ident("cfg") && list.tokens.to_string().starts_with("test"))
    })
}

impl Reader<'_> {
    /// A path from the crate's root; `None` for one of another crate, or of a name in the file.
    fn absolute(&self, path: &[String]) -> Option<Vec<String>> {
        let mut base = self.module.clone();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => (base, rest) = (Vec::new(), &path[1..]),
            "self" => rest = &path[1..],
            "super" => {
                while let Some(("super", after)) = rest.split_first().map(|(a, b)| (a.as_str(), b))
                {
                    base.pop();
                    rest = after;
                }
            }
            first => {
                let child = [self.module.clone(), vec![first.to_owned()]].concat();
                self.modules.contains(&child).then_some(())?;
            }
        }
        Some([base.as_slice(), rest].concat())
    }

    fn use_tree(&mut self, before: &[String], tree: &UseTree, is_export: bool) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.use_tree(&with(&path.ident), &path.tree, is_export),
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.use_tree(before, tree, is_export));
            }
            UseTree::Name(name) if name.ident == "self" => {
                let last = before.last().cloned().unwrap_or_default();
                self.import(before, last, is_export);
            }
            UseTree::Name(name) => {
                self.import(&with(&name.ident), name.ident.to_string(), is_export);
            }
            UseTree::Rename(name) => {
                self.import(&with(&name.ident), name.rename.to_string(), is_export);
            }
            UseTree::Glob(_) => {
                if let Some(path) = self.absolute(before) {
                    self.file.globs.push(path.clone());
                    if !is_export {
                        self.file.uses.insert(path);
                    }
                }
            }
        }
    }

    fn import(&mut self, path: &[String], name: String, is_export: bool) {
        let Some(path) = self.absolute(path) else { return };
        let own = &self.module[..self.depth];
        // A parent that shows what its children have does not use it.
        if !(is_export && path.starts_with(own)) {
            self.file.uses.insert(path.clone());
        }
        self.file.imports.insert(name, path);
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let (attributes, name) = match item {
            Item::Const(item) => (&item.attrs, Some(&item.ident)),
            Item::Enum(item) => (&item.attrs, Some(&item.ident)),
            Item::Fn(item) => (&item.attrs, Some(&item.sig.ident)),
            Item::Macro(item) => (&item.attrs, item.ident.as_ref()),
            Item::Mod(item) => (&item.attrs, item.content.as_ref().map(|_| &item.ident)),
            Item::Static(item) => (&item.attrs, Some(&item.ident)),
            Item::Struct(item) => (&item.attrs, Some(&item.ident)),
            Item::Trait(item) => (&item.attrs, Some(&item.ident)),
            Item::Type(item) => (&item.attrs, Some(&item.ident)),
            Item::Impl(item) => (&item.attrs, None),
            Item::Use(item) => (&item.attrs, None),
            _ => return visit::visit_item(self, item),
        };
        if is_for_tests(attributes) {
            return;
        }
        if let Some(name) = name.filter(|_| self.module.len() == self.depth) {
            self.file.items.insert(name.to_string());
        }
        match item {
            Item::Use(item) => {
                let is_export = !matches!(item.vis, Visibility::Inherited);
                self.use_tree(&[], &item.tree, is_export);
            }
            Item::Mod(item) if item.content.is_some() => {
                self.module.push(item.ident.to_string());
                visit::visit_item_mod(self, item);
                self.module.pop();
            }
            _ => visit::visit_item(self, item),
        }
    }

    /// `pub(super)` uses nothing of the parent.
    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<_> = path.segments.iter().map(|one| one.ident.to_string()).collect();
        if ["crate", "super"].contains(&segments[0].as_str())
            && let Some(path) = self.absolute(&segments)
        {
            self.file.uses.insert(path);
        }
        visit::visit_path(self, path);
    }
}

/// The files of Rust below a folder.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found
}

fn read(source: &Path) -> Files {
    let mut found = rust_files(source);
    // A program beside a library is a crate of its own.
    if source.join("lib.rs").is_file() {
        found.retain(|path| *path != source.join("main.rs"));
    }
    let module = |path: &Path| -> Vec<String> {
        let path = path.strip_prefix(source).unwrap().with_extension("");
        let mut names: Vec<_> = path.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
        names.pop_if(|last| ["lib", "main", "mod"].contains(&last.as_str()));
        names
    };
    let modules: BTreeSet<_> = found.iter().map(|path| module(path)).collect();
    let read = |path: &PathBuf| {
        let name = module(path);
        let code = syn::parse_file(&fs::read_to_string(path).unwrap()).unwrap();
        let (depth, file) = (name.len(), SourceFile::default());
        let mut reader = Reader { module: name.clone(), depth, modules: &modules, file };
        if !is_for_tests(&code.attrs) && name.last().is_none_or(|last| last != "tests") {
            reader.visit_file(&code);
        }
        (name, reader.file)
    };
    found.iter().map(read).collect()
}

/// The file that defines what a path names.
fn defined_in(files: &Files, path: &[String], hops: usize) -> Option<Vec<String>> {
    let length = (0..=path.len()).rev().find(|length| files.contains_key(&path[..*length]))?;
    let (module, rest) = path.split_at(length);
    let file = &files[module];
    let Some((name, after)) = rest.split_first() else { return Some(module.to_vec()) };
    if file.items.contains(name) {
        return Some(module.to_vec());
    }
    let hops = hops.checked_sub(1)?;
    if let Some(target) = file.imports.get(name) {
        return defined_in(files, &[target, after].concat(), hops);
    }
    file.globs.iter().find_map(|glob| {
        let found = defined_in(files, &[glob, rest].concat(), hops)?;
        files[&found].items.contains(name).then_some(found)
    })
}

/// The files that a file uses, directly or by way of others.
fn reached_from<'a>(
    file: &Vec<String>,
    direct: &'a BTreeMap<&Vec<String>, BTreeSet<Vec<String>>>,
) -> BTreeSet<&'a Vec<String>> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<_> = direct[file].iter().collect();
    while let Some(file) = next.pop() {
        if reached.insert(file) {
            next.extend(&direct[file]);
        }
    }
    reached
}

/// Files that use each other, directly or by way of others.
fn circles(files: &Files) -> Vec<BTreeSet<String>> {
    let uses = |from: &Vec<String>| -> BTreeSet<Vec<String>> {
        let used = files[from].uses.iter().filter_map(|path| defined_in(files, path, 5));
        used.filter(|to| to != from).collect()
    };
    let direct: BTreeMap<_, _> = files.keys().map(|file| (file, uses(file))).collect();
    let reached: BTreeMap<_, _> =
        files.keys().map(|file| (file, reached_from(file, &direct))).collect();
    let circle = |file: &Vec<String>| -> BTreeSet<String> {
        let both = reached[file].iter().filter(|other| reached[**other].contains(file));
        both.map(|other| other.join("/")).collect()
    };
    let circles: BTreeSet<_> = files.keys().map(circle).filter(|one| one.len() > 1).collect();
    circles.into_iter().collect()
}

#[test]
fn no_files_of_a_crate_use_each_other_in_a_circle() {
    let mut found = Vec::new();
    for name in crates().keys() {
        let circles = circles(&read(&root().join("crates").join(name).join("src")));
        for circle in circles {
            found.push(format!("{name}: {circle:?}"));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn circles_are_found_through_what_a_parent_shows() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, code: &str| fs::write(folder.path().join(name), code).unwrap();
    write("lib.rs", "mod one; mod two; mod three; pub use one::One; pub use three::*;");
    write("one.rs", "use crate::two::Two; pub struct One;");
    write("two.rs", "use crate::One; pub struct Two; #[cfg(test)] mod tests { use crate::three; }");
    write("three.rs", "use crate::{One, two}; pub struct Three;");
    let circle = BTreeSet::from(["one".to_owned(), "two".to_owned()]);
    assert_eq!(circles(&read(folder.path())), [circle]);
}

fn is_published(package: &Value) -> bool {
    package["publish"].is_null()
}

/// What a registry refuses in a crate's manifest, and what its page there would lack.
fn faults_of_manifest(package: &Value, published: &BTreeSet<&str>) -> Vec<String> {
    let mut faults = Vec::new();
    for field in ["description", "license", "repository", "readme"] {
        if package[field].as_str().is_none_or(str::is_empty) {
            faults.push(format!("no {field}"));
        }
    }
    for dependency in own_dependencies(package) {
        let name = dependency["name"].as_str().unwrap();
        if dependency["req"] == "*" {
            faults.push(format!("{name} without a version"));
        }
        if !published.contains(name) {
            faults.push(format!("{name}, which is not published"));
        }
    }
    faults
}

/// Looks for files that code takes from outside of its crate, which a published crate lacks.
struct Outside<'a> {
    file: &'a Path,
    folder: &'a Path,
    found: Vec<String>,
}

impl Outside<'_> {
    /// `name` is a path from the folder of `file`.
    fn look_at(&mut self, name: &str) {
        let mut path = PathBuf::new();
        for part in self.file.parent().unwrap().join(name).components() {
            if part == Component::ParentDir {
                path.pop();
            } else {
                path.push(part);
            }
        }
        if !path.starts_with(self.folder) {
            self.found.push(format!("{}: {name}", self.file.display()));
        }
    }
}

impl<'ast> Visit<'ast> for Outside<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        let name = call.path.segments.last().map(|segment| segment.ident.to_string());
        let is_include = name.is_some_and(|name| name.starts_with("include"));
        if let Some(literal) = call.parse_body::<syn::LitStr>().ok().filter(|_| is_include) {
            self.look_at(&literal.value());
        }
    }

    fn visit_meta_name_value(&mut self, meta: &'ast syn::MetaNameValue) {
        if let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(literal), .. }) = &meta.value
            && meta.path.is_ident("path")
        {
            self.look_at(&literal.value());
        }
    }
}

fn files_from_outside(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut files = rust_files(&folder.join("src"));
    files.push(folder.join("build.rs"));
    for file in files.iter().filter(|file| file.is_file()) {
        let text = fs::read_to_string(file).unwrap();
        let code = syn::parse_file(&text).unwrap();
        let mut outside = Outside { file, folder, found: Vec::new() };
        outside.visit_file(&code);
        found.append(&mut outside.found);
        // The one that builds the library to preload does without where there are no sources of it.
        let is_script = file.ends_with("build.rs") && !folder.ends_with("run");
        if is_script && text.contains("\"..") {
            found.push(format!("{} names a folder above", file.display()));
        }
    }
    found
}

#[test]
fn published_crates_stand_alone() {
    let packages = packages();
    let published: Vec<_> = packages.iter().filter(|package| is_published(package)).collect();
    let names: BTreeSet<_> = published.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert!(
        ["cellpace", "cellpace-cc", "cellpace-sim", "cellpace-quic"]
            .iter()
            .all(|name| names.contains(name))
    );
    let mut faults = Vec::new();
    for package in &published {
        let found = [faults_of_manifest(package, &names), files_from_outside(&folder(package))];
        faults.extend(found.concat().iter().map(|fault| format!("{}: {fault}", package["name"])));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));

    let built = tempfile::tempdir().unwrap();
    let mut args = vec!["package", "--no-verify", "--allow-dirty", "--quiet", "--target-dir"];
    args.push(built.path().to_str().unwrap());
    names.iter().for_each(|name| args.extend(["-p", name]));
    cargo(&args);
}

#[test]
fn files_from_outside_are_found() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("src")).unwrap();
    let write = |name: &str, code: &str| fs::write(folder.path().join(name), code).unwrap();
    write("src/lib.rs", "const A: &str = include_str!(\"../a\"); #[path = \"../../b.rs\"] mod b;");
    write(
        "src/c.rs",
        "fn c() { include_bytes!(\"../../c\"); } #[cfg(test)] mod tests { include!(\"../../d\"); }",
    );
    write("build.rs", "fn main() { open(\"../e\"); }");
    let found = files_from_outside(folder.path()).concat();
    assert!(["b.rs", "../c", "build.rs"].iter().all(|name| found.contains(name)), "{found}");
    assert!(["../a", "../d"].iter().all(|name| !found.contains(name)), "{found}");
}

/// Else a build that is copied together with its sources would go by those that it was copied from.
#[test]
fn build_scripts_go_by_the_sources_beside_them() {
    for package in packages() {
        let Ok(script) = fs::read_to_string(folder(&package).join("build.rs")) else { continue };
        let is_baked = script.contains("env!(\"CARGO_MANIFEST_DIR\")");
        assert!(!is_baked, "{}/build.rs has the folder in which it was compiled", package["name"]);
    }
}
