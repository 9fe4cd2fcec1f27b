package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// The notices name every module in a program, with a license, and have each text once.
func TestNoticesOfAProgram(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || len(info.Deps) == 0 {
		t.Fatalf("this program has no modules: %+v", info)
	}
	var stdout bytes.Buffer
	if err := run([]string{"-notices", self}, &stdout, io.Discard); err != nil {
		t.Fatal(err)
	}
	text := stdout.String()
	list, _, _ := strings.Cut(text, "\n-----")
	for _, m := range info.Deps {
		if !strings.Contains(list, "\n"+m.Path+"@"+m.Version+": ") {
			t.Errorf("no license of %s@%s", m.Path, m.Version)
		}
		if strings.Count(text, "\n"+m.Path+"@"+m.Version+"\n") == 0 {
			t.Errorf("no license text of %s@%s", m.Path, m.Version)
		}
	}
	if !strings.Contains(list, "\nGo's standard library, "+info.GoVersion+": BSD-3-Clause\n") {
		t.Errorf("no license of Go's library: %s", list)
	}
	if n := strings.Count(text, "TERMS AND CONDITIONS FOR USE, REPRODUCTION"); n == 0 || n > len(info.Deps) {
		t.Errorf("the Apache license is there %d times", n)
	}
}

// A module without a license, or with one that nobody has looked at, ends the build.
func TestUnknownLicenses(t *testing.T) {
	folder := t.TempDir()
	if _, err := readPart("example.com/x@v1", folder, true); err == nil || !strings.Contains(err.Error(), "has no license") {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "LICENSE"), []byte("Do no harm."), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := readPart("example.com/x@v1", folder, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := collect([]part{p}); err == nil || !strings.Contains(err.Error(), "example.com/x@v1 is none that informd knows") {
		t.Error(err)
	}
}

func TestIdentify(t *testing.T) {
	for text, want := range map[string][]string{
		"Mozilla Public License, version 2.0":                                                                   {"MPL-2.0"},
		"Apache License\n  Version 2.0, January 2004":                                                           {"Apache-2.0"},
		"Permission is hereby granted, free of charge, to any\n  person obtaining a copy":                       {"MIT"},
		"Redistribution and use in source and binary forms, with":                                               {"BSD-2-Clause"},
		"Redistribution and use in source and binary forms, with\n may be used to\nendorse or promote products": {"BSD-3-Clause"},
		"All rights reserved.": nil,
	} {
		if got := identify([]string{text}); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// The image says under which licenses all of its parts are, and has their texts. A program that Go
// did not build is refused unless its license stands beside it.
func TestLicensesOfAnImage(t *testing.T) {
	dir := t.TempDir()
	programs := filepath.Join(dir, "programs")
	cmd := exec.Command("go", "build", "-o", filepath.Join(programs, "informd"), "testdata/informd.go")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := labels(t, programs)[licensesLabel]; got != "Apache-2.0 AND BSD-3-Clause" {
		t.Errorf("informd alone is under %q", got)
	}

	busybox := filepath.Join(programs, "busybox")
	var header bytes.Buffer // of a static program without anything in it
	elf64 := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: 1, Ehsize: 64}
	copy(elf64.Ident[:], []byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1})
	if err := binary.Write(&header, binary.LittleEndian, elf64); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(busybox, header.Bytes(), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := newImage(release{version: "v1"}, "amd64", programs); err == nil || !strings.Contains(err.Error(), "busybox.copyright") {
		t.Errorf("a program without a license: %v", err)
	}
	text := "SPDX-License-Identifier: GPL-2.0-only AND LGPL-2.1-or-later\n\nGNU GENERAL PUBLIC LICENSE\n"
	if err := os.WriteFile(busybox+copyrightSuffix, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := labels(t, programs)[licensesLabel]; got != "Apache-2.0 AND BSD-3-Clause AND GPL-2.0-only AND LGPL-2.1-or-later" {
		t.Errorf("with busybox it is under %q", got)
	}
	found, err := readPrograms(programs, "amd64")
	if err != nil {
		t.Fatal(err)
	}
	files, _, err := licenseFiles(programs, found)
	if err != nil {
		t.Fatal(err)
	}
	has := make(map[string]string)
	for _, f := range append(found, files...) {
		has[f.name] = string(f.content)
	}
	if has["usr/share/licenses/busybox/copyright"] != text {
		t.Errorf("busybox's license is not there: %q", has)
	}
	if notices := has["usr/share/licenses/informd/THIRD_PARTY_NOTICES"]; !strings.Contains(notices, "\n"+rootsModule+"@") {
		t.Errorf("the certificates' license is not there: %s", notices)
	}
	if _, there := has["usr/bin/busybox"+copyrightSuffix]; there {
		t.Error("the license counts as a program")
	}
}

func labels(t *testing.T, programs string) map[string]string {
	t.Helper()
	image, err := newImage(release{version: "v1"}, "amd64", programs)
	var config *v1.ConfigFile
	if err == nil {
		config, err = image.ConfigFile()
	}
	if err != nil {
		t.Fatal(err)
	}
	return config.Config.Labels
}
