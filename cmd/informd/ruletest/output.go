package ruletest

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/config"
)

// report writes the results of tests: each when the test is done, or all at the end.
type report interface {
	add(*result) error
	end(all []*result) error
	cover(covered) error // after end, if somebody asked for it
}

func newReport(f *flags, w io.Writer) report {
	switch f.output {
	case "json":
		return jsonReport{w, f.verbose}
	case "junit":
		return junitReport{w}
	}
	return textReport{w, f.verbose, f.update}
}

// textReport is for people.
type textReport struct {
	w                io.Writer
	verbose, updates bool
}

func (t textReport) add(r *result) error {
	if !t.verbose && (t.updates || len(r.failures) == 0) {
		return nil
	}
	var b strings.Builder
	verdict := "PASS"
	if len(r.failures) > 0 {
		verdict = "FAIL"
	}
	fmt.Fprintf(&b, "%s %s (%v)\n", verdict, r.test.Name, r.test.At.Position(0))
	if t.verbose {
		b.WriteString(r.story())
	}
	if !t.updates {
		for _, f := range r.failures {
			b.WriteString(f.text())
		}
	}
	if r.log != "" && (t.verbose || len(r.failures) > 0 && !t.updates) {
		b.WriteString("  informd run would log:\n" + indented(r.log, "    "))
	}
	_, err := io.WriteString(t.w, b.String())
	return err
}

// story lists the steps with what came of each.
func (r *result) story() string {
	var b strings.Builder
	for _, step := range r.steps {
		verb := step.Verb
		if verb == "" {
			verb = "expect"
		}
		fmt.Fprintf(&b, "  %s %s, until %s, +%s\n", step.what, verb,
			step.at.Format(time.RFC3339), config.ShortDuration(step.until))
		for _, c := range step.came {
			b.WriteString("    " + c.String() + "\n")
			for _, line := range c.details() {
				b.WriteString("      " + line + "\n")
			}
		}
	}
	return b.String()
}

// text returns the failure with the line of the test that it is about.
func (f failure) text() string {
	text := f.at.Mistake(0, f.message).Error() + "\n"
	for _, line := range f.details {
		text += "  " + line + "\n"
	}
	return text
}

func indented(text, by string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(by + cli.Visible(line) + "\n")
	}
	return b.String()
}

func (t textReport) end(all []*result) error {
	events := 0
	var virtual time.Duration
	for _, r := range all {
		if events += r.count(); len(r.failures) > 0 {
			return nil // the command's error says how many
		}
		if n := len(r.steps); n > 0 {
			virtual += r.steps[n-1].until
		}
	}
	n := len(all)
	_, err := fmt.Fprintf(t.w, "ok: %d %s, %d %s, %s of virtual time\n",
		n, cli.Plural(n, "test"), events, cli.Plural(events, "event"), config.ShortDuration(virtual))
	return err
}

func (t textReport) cover(c covered) error {
	_, err := io.WriteString(t.w, c.text())
	return err
}

// jsonReport writes a line per test, and one with the coverage.
type jsonReport struct {
	w       io.Writer
	verbose bool
}

// jsonResult is a result as -o json prints it.
type jsonResult struct {
	Test     string        `json:"test"`
	File     string        `json:"file"`
	Line     int           `json:"line"`
	Result   string        `json:"result"` // pass or fail
	Events   int           `json:"events"` // how many came
	Seconds  float64       `json:"seconds"`
	Failures []jsonFailure `json:"failures,omitempty"`
	Came     []jsonEvent   `json:"came,omitempty"` // with -v
	Log      string        `json:"log,omitempty"`  // warnings and errors of informd run
}

type jsonFailure struct {
	File        string         `json:"file"`
	Line        int            `json:"line"`
	Column      int            `json:"column"`
	Message     string         `json:"message"`
	Want        map[string]any `json:"want,omitempty"`    // the event that did not come
	Nearest     *jsonEvent     `json:"nearest,omitempty"` // what came instead
	Differences []difference   `json:"differences,omitempty"`
	Unexpected  []jsonEvent    `json:"unexpected,omitempty"` // came, and nobody expects them
}

type jsonEvent struct {
	Step  string         `json:"step,omitempty"`
	At    time.Time      `json:"at"`
	After string         `json:"after"` // the start of the test
	Event map[string]any `json:"event"`
}

func (j jsonReport) add(r *result) error {
	at := r.test.At.Position(0)
	out := jsonResult{
		Test: r.test.Name, File: at.File, Line: at.Line, Result: "pass", Events: r.count(),
		Seconds: r.took.Seconds(), Log: r.log,
	}
	for _, f := range r.failures {
		out.Result = "fail"
		at := f.at.Position(0)
		failed := jsonFailure{
			File: at.File, Line: at.Line, Column: at.Column, Message: f.message,
			Want: f.want, Differences: f.differences,
		}
		if f.nearest != nil {
			ev := r.jsonEvent("", *f.nearest)
			failed.Nearest = &ev
		}
		for _, c := range f.unexpected {
			failed.Unexpected = append(failed.Unexpected, r.jsonEvent("", c))
		}
		out.Failures = append(out.Failures, failed)
	}
	if j.verbose {
		for _, step := range r.steps {
			for _, c := range step.came {
				out.Came = append(out.Came, r.jsonEvent(step.what, c))
			}
		}
	}
	return j.line(out)
}

func (j jsonReport) line(v any) error {
	encoder := json.NewEncoder(j.w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

func (r *result) jsonEvent(step string, c came) jsonEvent {
	return jsonEvent{step, c.at, config.ShortDuration(c.after), c.fields}
}

func (jsonReport) end([]*result) error { return nil }

func (j jsonReport) cover(c covered) error { return j.line(map[string]covered{"coverage": c}) }

// junitReport writes one XML document, as CI systems read it: a testsuite per file. It writes only
// what Jenkins' junit-10.xsd allows, and all that it requires.
type junitReport struct{ w io.Writer }

type junitSuites struct {
	XMLName  xml.Name      `xml:"testsuites"`
	Tests    int           `xml:"tests,attr"`
	Failures int           `xml:"failures,attr"`
	Errors   int           `xml:"errors,attr"` // none: a test that does not run has failed
	Suites   []*junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"` // the file
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"` // none
	Time     string      `xml:"time,attr"`   // seconds
	Cases    []junitCase `xml:"testcase"`

	took time.Duration
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"` // the file; the failure's text has the lines
	Time    string        `xml:"time,attr"`
	Failure *junitFailure `xml:"failure"`
	Log     string        `xml:"system-err,omitempty"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

func (junitReport) add(*result) error { return nil }

func (junitReport) cover(covered) error { return nil } // the command line has no such combination

func (j junitReport) end(all []*result) error {
	suites := junitSuites{Tests: len(all)}
	byFile := make(map[string]*junitSuite)
	for _, r := range all {
		at := r.test.At.Position(0)
		suite := byFile[at.File]
		if suite == nil {
			suite = &junitSuite{Name: at.File}
			byFile[at.File] = suite
			suites.Suites = append(suites.Suites, suite)
		}
		c := junitCase{
			Name: r.test.Name, Class: at.File, Time: seconds(r.took), Log: r.log,
		}
		if len(r.failures) > 0 {
			c.Failure = &junitFailure{Message: r.failures[0].message}
			for _, f := range r.failures {
				c.Failure.Text += f.text()
			}
			suite.Failures++
			suites.Failures++
		}
		suite.Tests++
		suite.took += r.took
		suite.Time = seconds(suite.took)
		suite.Cases = append(suite.Cases, c)
	}
	if _, err := io.WriteString(j.w, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(j.w)
	encoder.Indent("", "  ")
	if err := encoder.Encode(suites); err != nil {
		return err
	}
	_, err := io.WriteString(j.w, "\n")
	return err
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }
