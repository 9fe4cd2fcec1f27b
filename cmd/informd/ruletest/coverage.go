package ruletest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

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
			if rule, ok := came.fields["rule"].(string); ok && !came.isFailure() {
				c.told[rule] = true
			}
		}
	}
}

// covered is how much the tests reached, and what they did not.
type covered struct {
	Rules           int         `json:"rules"`
	RulesTold       int         `json:"rulesTold"` // a test has an event of them
	Outcomes        int         `json:"outcomes"`  // of conditions: two each
	OutcomesReached int         `json:"outcomesReached"`
	Missing         []uncovered `json:"missing"`
}

// uncovered is a rule of which no test has an event, or an outcome that a condition never had.
type uncovered struct {
	File      string `json:"file"`
	Line      int    `json:"line"`
	Column    int    `json:"column"`
	Rule      string `json:"rule,omitempty"`
	Condition string `json:"condition,omitempty"`
	Outcome   *bool  `json:"outcome,omitempty"` // of the condition

	mistake config.Mistake // for people
}

// of returns the coverage of a configuration. What is missing is in the order of its places.
func (c *coverage) of(cfg *config.Config) covered {
	out := covered{Outcomes: 2 * len(c.branches), Missing: []uncovered{}}
	add := func(u uncovered, m config.Mistake) {
		u.File, u.Line, u.Column, u.mistake = m.File, m.Line, m.Column, m
		out.Missing = append(out.Missing, u)
	}
	for _, r := range cfg.Rules {
		if r.Handler == "" && len(r.Actions) == 0 {
			continue // it only has metrics, and makes no events
		}
		out.Rules++
		if c.told[r.Name] {
			out.RulesTold++
			continue
		}
		add(uncovered{Rule: r.Name}, r.At.Mistake(0, "no test has an event of rule "+r.Name))
	}
	for _, b := range c.branches {
		for i, outcome := range []bool{false, true} {
			if b.outcomes[i] {
				out.OutcomesReached++
				continue
			}
			add(uncovered{Condition: b.says.Text, Outcome: &outcome}, b.in.Mistake(b.says.Offset,
				fmt.Sprintf("in no test this is %v: %s", outcome, b.says.Text)))
		}
	}
	slices.SortFunc(out.Missing, compare)
	out.Missing = slices.CompactFunc(out.Missing, func(a, b uncovered) bool {
		return compare(a, b) == 0 // a condition and its only operand
	})
	return out
}

func compare(a, b uncovered) int {
	return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line),
		cmp.Compare(a.Column, b.Column), cmp.Compare(a.mistake.Message, b.mistake.Message))
}

// text describes the coverage to people.
func (c covered) text() string {
	var b strings.Builder
	for _, u := range c.Missing {
		b.WriteString(u.mistake.Error() + "\n")
	}
	fmt.Fprintf(&b, "covered: %d of %d %s, %d of %d %s\n",
		c.RulesTold, c.Rules, cli.Plural(c.Rules, "rule"),
		c.OutcomesReached, c.Outcomes, cli.Plural(c.Outcomes, "outcome")+" of conditions")
	return b.String()
}
