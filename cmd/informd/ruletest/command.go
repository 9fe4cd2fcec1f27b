// Package ruletest is informd test: it runs the Tests beside the rules, without a cluster, in
// virtual time.
//
// run.go does a test's steps on a simulate.Simulation. match.go and compare.go compare what came
// with what the test expects, output.go reports it, and update.go writes it into the test.
// coverage.go says what no test reached.
package ruletest

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/spf13/cobra"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/cmd/informd/manifests"
	"github.com/informd/informd/cmd/informd/schemas"
	"github.com/informd/informd/config"
)

// NewCommand returns informd test.
func NewCommand() *cobra.Command {
	var flags flags
	cmd := &cobra.Command{
		Use:   "test -f PATH… [flags]",
		Short: "Run the tests of rules, offline, in virtual time",
		Long: `Run the Tests in the files *_test.yaml beside the rules: what happens to objects, and
which events the rules make of it. The command runs the engine of informd run, without a cluster.
It starts no handler: it records what handlers would get, and which actions rules would perform.
Time is virtual, so that a year takes milliseconds.

A failure stands at its place in the test, with what came instead. -v lists what came at each step.

--update writes what came into the tests that fail, and leaves the rest of their files as it is.
Look at the difference before you keep it.

--coverage lists the rules of which no test has an event, and each condition in where, due and when,
each operand of and and or, and each condition of if and ?:, that was never true or never false.

Exit code 0: all tests passed. 1: a test failed, or the manifests have mistakes. 2: the command line
is wrong.`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(outputs, flags.output) {
				return fmt.Errorf("-o %q: want %s", flags.output, cli.OneOf(outputs))
			}
			switch {
			case flags.update && flags.output != "text":
				return errors.New("--update goes with -o text only")
			case flags.coverage && flags.output == "junit":
				return errors.New("--coverage goes with -o text and -o json only")
			}
			only, err := regexp.Compile(flags.run)
			if err != nil {
				return fmt.Errorf("--run: %w", err)
			}
			return flags.test(cmd, only)
		},
	}
	cli.ManifestFlag(cmd, &flags.manifests)
	schemas.Flag(cmd, &flags.schemas)
	f := cmd.Flags()
	f.StringVar(&flags.run, "run", "", "run only tests whose name matches this `REGEXP`")
	f.BoolVarP(&flags.verbose, "verbose", "v", false, "list what came at each step")
	f.BoolVar(&flags.coverage, "coverage", false,
		"list the rules, and the outcomes of their conditions, that no test reached")
	f.BoolVar(&flags.update, "update", false, "write what came into the tests that fail")
	f.StringVarP(&flags.output, "output", "o", "text", "`text`, json (a line per test) or junit")
	return cmd
}

var outputs = []string{"text", "json", "junit"}

type flags struct {
	manifests []string
	schemas   []string
	run       string
	output    string
	verbose   bool
	update    bool
	coverage  bool
}

// hasOnlyTests reports whether somebody gave files of tests without those of their rules.
func (f *flags) hasOnlyTests() bool {
	files, err := manifests.ReadWithTests(f.manifests)
	isOther := func(file config.File) bool { return !config.IsTestFile(file.Path) }
	return err == nil && !slices.ContainsFunc(files, isOther)
}

// test runs the tests whose names match.
func (f *flags) test(cmd *cobra.Command, only *regexp.Regexp) error {
	given, schemaErr := schemas.Read(f.schemas)
	cfg, whole, err := manifests.LoadWithTests(f.manifests, given.ResourceOf)
	if cfg == nil {
		return cli.Failed(err)
	}
	if schemaErr != nil {
		return cli.Failed(schemaErr)
	}
	mistakes, _ := err.(config.Mistakes)
	misfits, _ := schemas.Check(cfg, given, mistakes)
	mistakes = append(mistakes, misfits...)
	if len(mistakes) > 0 {
		mistakes.Sort()
		fmt.Fprintln(cmd.ErrOrStderr(), mistakes.Error())
		if len(misfits) > 0 {
			cmd.PrintErrln(schemas.Hint())
		}
		if f.hasOnlyTests() {
			cmd.PrintErrln("there are only tests: name the files of their rules with -f, too")
		}
		n := len(mistakes)
		return cli.Failed(fmt.Errorf("%d %s", n, cli.Plural(n, "mistake")))
	}
	if len(cfg.Tests) == 0 {
		return cli.Failed(errors.New("there is no Test in the manifests: " +
			"tests are in files whose names end in _test.yaml"))
	}
	var covered *coverage
	if f.coverage {
		covered = newCoverage()
	}
	var results []*result
	report := newReport(f, cmd.OutOrStdout())
	for i := range cfg.Tests {
		test := &cfg.Tests[i]
		if !only.MatchString(test.Name) {
			continue
		}
		p, err := compile(test, cfg, whole, covered)
		if err != nil {
			return cli.Failed(fmt.Errorf("%s: %w", test.Name, err))
		}
		r := run(test, p)
		covered.add(r)
		results = append(results, r)
		if err := report.add(r); err != nil {
			return cli.Failed(err)
		}
	}
	if len(results) == 0 {
		return cli.Failed(fmt.Errorf("no test has a name that matches %q", f.run))
	}
	if err := report.end(results); err != nil {
		return cli.Failed(err)
	}
	if f.coverage {
		if err := report.cover(covered.of(cfg)); err != nil {
			return cli.Failed(err)
		}
	}
	failed := 0
	for _, r := range results {
		if len(r.failures) > 0 {
			failed++
		}
	}
	switch n := len(results); {
	case failed == 0:
		return nil
	case f.update:
		return f.write(cmd, results)
	default:
		return cli.Failed(fmt.Errorf("%d of %d %s failed", failed, n, cli.Plural(n, "test")))
	}
}
