package ruletest

import (
	"fmt"
	"io"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/expr"
)

// coverage has what the tests reached. A nil coverage counts nothing.
type coverage struct {
	told     map[string]bool // rules that made an event
	branches map[place]*branch
}

// place identifies a branch: a condition, and a part of it, may begin at one position.
type place struct {
	in   config.Position // of the expression
	says expr.Branch
}

// branch is a condition of a where, due or when, with the outcomes that it has had.
type branch struct {
	in       config.Text
	says     expr.Branch
	outcomes [2]bool // false, true
}

func newCoverage() *coverage {
	return &coverage{told: make(map[string]bool), branches: make(map[place]*branch)}
}

// watch returns what notes the outcomes of a branch. A plan is compiled for each choice of rules,
// so the same branch is watched several times.
func (c *coverage) watch(in config.Text, says expr.Branch) func(outcome bool) {
	key := place{in.Position(0), says}
	b := c.branches[key]
	if b == nil {
		b = &branch{in: in, says: says}
		c.branches[key] = b
	}
	return func(outcome bool) {
		if outcome {
			b.outcomes[1] = true
		} else {
			b.outcomes[0] = true
		}
	}
}

// add notes which rules made the events of a result.
func (c *coverage) add(r *result) {
	if c == nil {
		return
	}
	for _, step := range r.steps {
		for _, came := range step.came {
			rule, _ := came.fields["rule"].(string)
			c.told[rule] = true
		}
	}
}

// report writes what no test reached, and how much the tests reached.
func (c *coverage) report(cfg *config.Config, w io.Writer) error {
	var missing config.Mistakes
	told := 0
	for _, r := range cfg.Rules {
		if c.told[r.Name] {
			told++
			continue
		}
		missing = append(missing, r.At.Mistake(0, "no test has an event of rule "+r.Name))
	}
	reached := 0
	for _, b := range c.branches {
		for i, outcome := range []string{"false", "true"} {
			if b.outcomes[i] {
				reached++
				continue
			}
			missing = append(missing, b.in.Mistake(b.says.Offset,
				fmt.Sprintf("in no test this is %s: %s", outcome, b.says.Text)))
		}
	}
	missing.Sort()
	for _, m := range missing {
		if _, err := fmt.Fprintln(w, m.Error()); err != nil {
			return err
		}
	}
	rules, outcomes := len(cfg.Rules), 2*len(c.branches)
	_, err := fmt.Fprintf(w, "covered: %d of %d %s, %d of %d %s\n",
		told, rules, cli.Plural(rules, "rule"),
		reached, outcomes, cli.Plural(outcomes, "outcome")+" of conditions")
	return err
}
