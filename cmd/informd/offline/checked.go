package offline

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/cmd/informd/schemas"
	"github.com/informd/informd/config"
)

// checked is what a check has found.
type checked struct {
	Mistakes []mistake `json:"mistakes"`
	// Logs have what handlers logged that did not accept their config, by their names.
	Logs map[string]string `json:"logs,omitempty"`

	mistakes   config.Mistakes
	hasMisfits bool
	summary    string // without mistakes: what the manifests are
}

// mistake is a mistake as -o json prints it. Lines and columns count from 1, columns in characters.
// EndColumn is behind the word at which the mistake begins. Without a line, the mistake is about the
// whole file.
type mistake struct {
	File      string `json:"file"`
	Line      int    `json:"line,omitempty"`
	Column    int    `json:"column,omitempty"`
	EndColumn int    `json:"endColumn,omitempty"`
	Message   string `json:"message"`
}

// show prints what a check has found, and returns an error if there are mistakes.
func (c *checked) show(cmd *cobra.Command, asJSON bool) error {
	n := len(c.mistakes)
	failed := cli.Failed(fmt.Errorf("%d %s", n, cli.Plural(n, "mistake")))
	switch {
	case asJSON:
		if err := c.showJSON(cmd); err != nil || n == 0 {
			return err
		}
		return failed
	case n == 0:
		return cli.Show(cmd, "%s", c.summary)
	}
	fmt.Fprintln(cmd.ErrOrStderr(), c.mistakes.Error())
	for _, name := range slices.Sorted(maps.Keys(c.Logs)) {
		fmt.Fprintf(cmd.ErrOrStderr(), "log of handler %q:\n%s", name, c.Logs[name])
	}
	if c.hasMisfits {
		fmt.Fprintln(cmd.ErrOrStderr(), schemas.Hint())
	}
	return failed
}

func (c *checked) showJSON(cmd *cobra.Command) error {
	c.Mistakes = make([]mistake, 0, len(c.mistakes))
	for _, m := range c.mistakes {
		c.Mistakes = append(c.Mistakes, mistake{m.File, m.Line, m.Column, m.EndColumn, m.Message})
	}
	line, err := json.Marshal(c)
	if err != nil {
		return cli.Failed(err)
	}
	return cli.Show(cmd, "%s\n", line)
}

// showAgain prints what a check has found, below the time. It is one of several, so it is no end.
func (c *checked) showAgain(cmd *cobra.Command, asJSON bool, err error) {
	if !asJSON {
		fmt.Fprintf(cmd.ErrOrStderr(), "\n%s\n", time.Now().Format(time.TimeOnly))
	}
	if err == nil {
		err = c.show(cmd, asJSON)
	}
	if err != nil {
		fmt.Fprintln(cmd.ErrOrStderr(), errors.Unwrap(err))
	}
}
