//! The rules of the house that a compiler does not check: the table of crates in CONTRIBUTING.md is
//! true, dependencies point down only, and there is no circle between the files of a crate.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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

/// The crates below `crates/`, each with those of the workspace that it depends on.
fn crates() -> BTreeMap<String, BTreeSet<String>> {
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let mut metadata = Command::new(cargo);
    metadata.args(["metadata", "--format-version", "1", "--no-deps", "--offline"]);
    let output = metadata.current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut found = BTreeMap::new();
    for package in metadata["packages"].as_array().unwrap() {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap());
        let Ok(folder) = manifest.parent().unwrap().strip_prefix(root().join("crates")) else {
            continue;
        };
        let below = package["dependencies"].as_array().unwrap().iter().filter_map(|dependency| {
            let path = dependency["path"].as_str().filter(|_| dependency["kind"] != "dev")?;
            Some(Path::new(path).file_name()?.to_str()?.to_owned())
        });
        found.insert(folder.to_str().unwrap().to_owned(), below.collect());
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

fn read(source: &Path) -> Files {
    let mut found = Vec::new();
    let mut folders = vec![source.to_owned()];
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
