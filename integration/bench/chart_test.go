package main

import (
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestChartIsAnSVG(t *testing.T) {
	t.Parallel()
	itself := func(f float64) float64 { return f }
	c := chart{name: "x", title: "Apples & pears", unit: "µs; less is <better>", bars: []bar{
		barOf("ours", true, []float64{1200, 1000, 1234}, itself),
		barOf("theirs, once", false, []float64{20_000}, itself),
		barOf("none", false, nil, itself),
	}}
	text := c.svg()
	for decoder := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := decoder.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("no XML: %v\n%s", err, text)
		}
	}
	for _, want := range []string{">1,200<", ">20,000<", ">not measured<", "Apples &amp; pears", "prefers-color-scheme: dark"} {
		if !strings.Contains(text, want) {
			t.Errorf("the drawing lacks %q:\n%s", want, text)
		}
	}
	if n := strings.Count(text, `class="spread"`); n != 1 {
		t.Errorf("%d spreads, want the one of what was measured several times", n)
	}
}

func TestRounded(t *testing.T) {
	t.Parallel()
	for value, want := range map[float64]string{0.123: "0.12", 2.06: "2.1", 99.94: "99.9", 100.4: "100", 1349: "1,349", 1234567: "1,234,567"} {
		if got := rounded(value); got != want {
			t.Errorf("%v: got %q, want %q", value, got, want)
		}
	}
}

func TestChartsStandBesideTheirDocument(t *testing.T) {
	t.Parallel()
	document := filepath.Join(t.TempDir(), "benchmarks.md")
	images, err := writeCharts(document, []chart{{name: "cpu", title: "CPU"}})
	if err != nil {
		t.Fatal(err)
	}
	if want := "![CPU](benchmarks/cpu.svg)\n\n"; images != want {
		t.Errorf("got %q, want %q", images, want)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(document), "benchmarks", "cpu.svg")); err != nil {
		t.Error(err)
	}
}
