package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"unicode"
)

// notices are the licenses of what others wrote and informd ships.
type notices struct {
	text     []byte
	licenses []string // SPDX identifiers, sorted, each once; without informd's own
}

// ours begins the paths of informd's own modules.
const ours = "github.com/informd/informd"

// part is something that others wrote, with all its license texts.
type part struct {
	name  string
	texts []string
}

// newNotices reads the licenses of all modules that are linked into programs, and of Go's own
// library, from where the go command keeps them. roots says that the certificates of authorities,
// which this program has, are shipped, too. A module without a license that it knows is an error:
// somebody has to look at it.
func newNotices(programs []string, roots bool) (notices, error) {
	cache, goroot, err := goFolders()
	if err != nil {
		return notices{}, err
	}
	modules := make(map[string]*debug.Module) // by path@version
	var versions []string                     // of Go
	for _, program := range programs {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return notices{}, fmt.Errorf("which modules %s has: %w", program, err)
		}
		versions = append(versions, info.GoVersion)
		for _, m := range append(info.Deps, &info.Main) {
			add(modules, m)
		}
	}
	if roots {
		if info, ok := debug.ReadBuildInfo(); ok {
			for _, m := range info.Deps {
				if m.Path == rootsModule {
					add(modules, m)
				}
			}
		}
	}
	slices.Sort(versions)
	var parts []part
	for _, v := range slices.Compact(versions) {
		p, err := readPart("Go's standard library, "+v, goroot, false)
		if err != nil {
			return notices{}, err
		}
		parts = append(parts, p)
	}
	for _, name := range slices.Sorted(maps.Keys(modules)) {
		m := modules[name]
		p, err := readPart(name, filepath.Join(cache, escaped(m.Path)+"@"+escaped(m.Version)), true)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: run go mod download %s", err, name)
		}
		if err != nil {
			return notices{}, err
		}
		parts = append(parts, p)
	}
	return collect(parts)
}

// rootsModule has the certificates of authorities.
const rootsModule = "golang.org/x/crypto/x509roots/fallback"

func add(modules map[string]*debug.Module, m *debug.Module) {
	if m.Replace != nil {
		m = m.Replace
	}
	if m.Path == ours || strings.HasPrefix(m.Path, ours+"/") || strings.HasPrefix(m.Path, ".") ||
		filepath.IsAbs(m.Path) || m.Version == "" || m.Version == "(devel)" {
		return // informd's own
	}
	modules[m.Path+"@"+m.Version] = m
}

// goFolders returns the go command's cache of modules, and Go's own folder.
func goFolders() (cache, goroot string, err error) {
	out, err := exec.Command("go", "env", "GOMODCACHE", "GOROOT").Output()
	if err != nil {
		return "", "", fmt.Errorf("where the go command keeps modules: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 2 {
		return "", "", fmt.Errorf("where the go command keeps modules: it says %q", out)
	}
	return lines[0], lines[1], nil
}

// escaped returns a path or version as it stands in the cache of modules: an upper-case letter is an
// exclamation mark and the lower-case letter.
func escaped(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsUpper(r) {
			b.WriteByte('!')
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

var (
	licenseName = regexp.MustCompile(
		`^(?i)(licen[cs]e|copying|copyright|notice|patents|unlicense)([-._].*)?$`)
	sourceName = regexp.MustCompile(`(?i)\.(go|sh|py|js|json|ya?ml|html|tmpl|tpl)$`)
	// skippedName are folders that are not linked into programs.
	skippedName = regexp.MustCompile(`^(testdata|examples?|_.*|\..*|node_modules)$`)
)

// readPart reads the license texts in a folder, and in those below it if deep.
func readPart(name, folder string, deep bool) (part, error) {
	p := part{name: name}
	err := filepath.WalkDir(folder, func(at string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if at != folder && (!deep || skippedName.MatchString(entry.Name())) {
				return fs.SkipDir
			}
			return nil
		}
		if !licenseName.MatchString(entry.Name()) || sourceName.MatchString(entry.Name()) {
			return nil
		}
		text, err := os.ReadFile(at)
		if err == nil && len(bytes.TrimSpace(text)) > 0 {
			p.texts = append(p.texts, string(text))
		}
		return err
	})
	if err == nil && len(p.texts) == 0 {
		err = fmt.Errorf("%s has no license in %s: look at it, and see whether informd may ship it",
			name, folder)
	}
	return p, err
}

// known recognise licenses by what only they say, the more special first.
var known = []struct{ id, says string }{
	{"MPL-2.0", "mozilla public license, version 2.0"},
	{"MPL-2.0", "mozilla public license version 2.0"},
	{"Apache-2.0", "apache license version 2.0"},
	{"Apache-2.0", "apache license, version 2.0"},
	{"Apache-2.0", "licensed under the apache 2.0 license"},
	{"ISC", "permission to use, copy, modify, and/or distribute this software"},
	{"ISC", "permission to use, copy, modify, and distribute this software for any purpose"},
	{"MIT", "permission is hereby granted, free of charge, to any person obtaining a copy"},
	{"BSD-3-Clause", "may be used to endorse or promote products"},
	{"BSD-2-Clause", "redistribution and use in source and binary forms"},
}

// identify returns the licenses that texts name.
func identify(texts []string) (ids []string) {
	for _, text := range texts {
		plain := strings.ToLower(strings.Join(strings.Fields(text), " "))
		hasBSD := false
		for _, k := range known {
			if !strings.Contains(plain, k.says) || hasBSD && k.id == "BSD-2-Clause" {
				continue
			}
			hasBSD = hasBSD || k.id == "BSD-3-Clause"
			ids = append(ids, k.id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// collect writes each text once, behind the names of all that have it.
func collect(parts []part) (notices, error) {
	var n notices
	names := make(map[[32]byte][]string)
	var order []string // texts
	var list strings.Builder
	for _, p := range parts {
		ids := identify(p.texts)
		if len(ids) == 0 {
			return n, fmt.Errorf("the license of %s is none that informd knows: look at it, "+
				"and add it to deploy/image/notices.go if informd may ship it", p.name)
		}
		n.licenses = append(n.licenses, ids...)
		fmt.Fprintf(&list, "%s: %s\n", p.name, strings.Join(ids, ", "))
		for _, text := range p.texts {
			sum := sha256.Sum256([]byte(text))
			if names[sum] == nil {
				order = append(order, text)
			}
			if !slices.Contains(names[sum], p.name) {
				names[sum] = append(names[sum], p.name)
			}
		}
	}
	slices.Sort(n.licenses)
	n.licenses = slices.Compact(n.licenses)
	var b bytes.Buffer
	fmt.Fprintf(&b, "informd is licensed under Apache-2.0. Its programs contain the modules below, "+
		"which others\nwrote. `go mod download -json MODULE@VERSION` gets the source of each, "+
		"unchanged, also of those under\nMPL-2.0, and https://MODULE or "+
		"https://pkg.go.dev/MODULE leads there.\n\n%s", list.String())
	for _, text := range order {
		fmt.Fprintf(&b, "\n%s\n", strings.Repeat("-", 80))
		for _, name := range names[sha256.Sum256([]byte(text))] {
			fmt.Fprintln(&b, name)
		}
		fmt.Fprintf(&b, "\n%s\n", strings.TrimSpace(text))
	}
	n.text = b.Bytes()
	return n, nil
}

// copyrightSuffix ends the name of a file that has the license of a program that Go did not build.
// It begins with a line SPDX-License-Identifier.
const copyrightSuffix = ".copyright"

var spdxLine = regexp.MustCompile(`^SPDX-License-Identifier: ([A-Za-z0-9.+ -]+)\n`)

// foreignLicense returns the license of such a program, and the identifiers in it.
func foreignLicense(program string) (text []byte, ids []string, err error) {
	name := program + copyrightSuffix
	text, err = os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("%s is not built by Go, and %s, which would say its license, "+
			"is missing: remove the program and run make again", program, name)
	}
	if err != nil {
		return nil, nil, err
	}
	found := spdxLine.FindSubmatch(text)
	if found == nil {
		return nil, nil, fmt.Errorf("%s does not begin with SPDX-License-Identifier: and a license",
			name)
	}
	return text, strings.Split(string(found[1]), " AND "), nil
}

// licenseFiles returns the files of an image that has the programs of a folder, and the licenses of
// all that is in it.
func licenseFiles(folder string, programs []file) (files []file, expression string, err error) {
	const root = "usr/share/licenses/"
	var goPrograms []string
	ids := []string{"Apache-2.0"} // informd's own
	files = []file{{name: "usr/share/", mode: 0o755}, {name: root, mode: 0o755}}
	for _, p := range programs {
		if p.link != "" {
			continue
		}
		name := path.Base(p.name)
		program := filepath.Join(folder, name)
		if _, err := buildinfo.ReadFile(program); err == nil {
			goPrograms = append(goPrograms, program)
			continue
		}
		text, more, err := foreignLicense(program)
		if err != nil {
			return nil, "", err
		}
		ids = append(ids, more...)
		files = append(files, file{name: root + name + "/", mode: 0o755},
			file{name: root + name + "/copyright", mode: 0o644, content: text})
	}
	n, err := newNotices(goPrograms, true)
	if err != nil {
		return nil, "", err
	}
	files = append(files, file{name: root + "informd/", mode: 0o755},
		file{name: root + "informd/THIRD_PARTY_NOTICES", mode: 0o644, content: n.text})
	ids = append(ids, n.licenses...)
	slices.Sort(ids)
	return files, strings.Join(slices.Compact(ids), " AND "), nil
}
