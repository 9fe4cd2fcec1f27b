package client

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/cmd/informd/control"
)

// selection chooses dead letters by what they are about and why they died. The zero value chooses
// all.
type selection struct {
	rule, handler, namespace, name, reason string
	since                                  time.Duration // 0: however long ago they died
}

// addFlags adds the flags that choose letters: the same ones to each command that takes letters.
func (s *selection) addFlags(cmd *cobra.Command, flags *controlFlags) {
	f := cmd.Flags()
	f.StringVar(&s.rule, "rule", "", "choose those of the rule `NAME`")
	completeFlag(cmd, "rule", flags.completer(1, ruleNames))
	f.StringVar(&s.handler, "handler", "", "choose those of the handler `NAME`")
	completeFlag(cmd, "handler", flags.completer(1, handlerNames))
	f.StringVarP(&s.namespace, "namespace", "n", "", "choose those of objects in `NAMESPACE`")
	f.StringVar(&s.name, "name", "", "choose those of objects with the `NAME`")
	f.StringVar(&s.reason, "reason", "",
		"choose those whose reason contains `TEXT`, in which … stands for any text")
	f.DurationVar(&s.since, "since", 0,
		"choose those that died within the last `DURATION`, such as 90m")
}

// check returns what is wrong with the selection.
func (s *selection) check() error {
	if s.since < 0 {
		return errors.New("--since: want a duration of more than 0, such as 90m")
	}
	return nil
}

// args returns the selection as arguments of a command.
func (s *selection) args() (args []string) {
	since := ""
	if s.since > 0 {
		since = s.since.String()
	}
	for _, flag := range [][2]string{
		{"--rule", s.rule}, {"--handler", s.handler}, {"--namespace", s.namespace},
		{"--name", s.name}, {"--reason", s.reason}, {"--since", since},
	} {
		if flag[1] != "" {
			args = append(args, flag[0], flag[1])
		}
	}
	return args
}

// isAll reports whether it chooses all letters.
func (s *selection) isAll() bool { return *s == selection{} }

// find asks the daemon for the letters of the selection, the oldest first.
func (s *selection) find(
	ctx context.Context, c *control.Client, now time.Time,
) ([]control.Letter, error) {
	letters, err := c.Letters(ctx, s.rule, s.handler)
	return slices.DeleteFunc(letters, func(l control.Letter) bool {
		return s.namespace != "" && l.Namespace != s.namespace || s.name != "" && l.Name != s.name ||
			s.since > 0 && l.Died.Before(now.Add(-s.since)) ||
			!contains(cli.Printable(l.Reason), s.reason)
	}), err
}

// anyText stands for any text in a reason. Tables cut with it, so what they show can be given back.
const anyText = "…"

// contains reports whether text contains pattern, in which anyText stands for any text.
func contains(text, pattern string) bool {
	for part := range strings.SplitSeq(pattern, anyText) {
		at := strings.Index(text, part)
		if at < 0 {
			return false
		}
		text = text[at+len(part):]
	}
	return true
}

// kind is what dead letters have in common that died for the same reason.
type kind struct {
	rule, reason   string // with anyText in the place of what differs between letters
	count          int
	delivered      int // of count: those with a later event that was delivered
	oldest, newest time.Time
}

// kindsOf returns the kinds of letters, the most frequent first.
func kindsOf(letters []control.Letter) (kinds []kind) {
	at := make(map[[2]string]int)
	for _, l := range letters {
		is := [2]string{l.Rule, reasonOf(l)}
		i, ok := at[is]
		if !ok {
			i = len(kinds)
			at[is] = i
			kinds = append(kinds, kind{rule: is[0], reason: is[1], oldest: l.Died, newest: l.Died})
		}
		k := &kinds[i]
		k.count++
		if !l.Delivered.IsZero() {
			k.delivered++
		}
		if l.Died.Before(k.oldest) {
			k.oldest = l.Died
		}
		if l.Died.After(k.newest) {
			k.newest = l.Died
		}
	}
	slices.SortStableFunc(kinds, func(a, b kind) int { return b.count - a.count })
	return kinds
}

// differing matches what differs between reasons of one kind: uids, dates, times of day, times taken,
// and long numbers such as ports and resource versions. Codes of HTTP are shorter.
var differing = regexp.MustCompile(`\b([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}` +
	`|(\d{4}[-/]\d\d[-/]\d\d[T ])?\d\d:\d\d:\d\d([.,]\d+)?(Z|[-+]\d\d:?\d\d)?|\d{4}[-/]\d\d[-/]\d\d` +
	`|[0-9.]+(ms|µs|s)|\d{4,})\b`)

// reasonOf returns why a letter died, without what only concerns its own object. The reason contains
// it.
func reasonOf(l control.Letter) string {
	reason := cli.Printable(l.Reason)
	if l.Name != "" {
		own := `\b` + regexp.QuoteMeta(l.Name) + `\b`
		if l.Namespace != "" {
			own = `\b(` + regexp.QuoteMeta(l.Namespace) + `/)?` + regexp.QuoteMeta(l.Name) + `\b`
		}
		reason = regexp.MustCompile(own).ReplaceAllLiteralString(reason, anyText)
	}
	return shortened(differing.ReplaceAllLiteralString(reason, anyText), reasonWidth)
}
