package engine

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// While a rule that is new, or has another where, has not been told what that makes, informd may end, and the server lose its
// history: those beside it hear of the end of all that they were told of.
func TestALateRuleCostsOthersNothing(t *testing.T) {
	for name, c := range map[string]struct {
		rule string
		told []string // in the end
	}{
		"another where":         {`, where: object.data.size != "1"`, []string{"late deleted a →1", "late synced b →2", "late deleted c →3"}},
		"another where in vain": {`, where: object.data.size == "9"`, []string{"late deleted a →1"}},
		"new":                   {"", []string{"new synced a →1", "new synced b →2"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t)
			l.server.Serve(nodes, "Node", false)
			l.put("a", "1")
			l.put("b", "2")
			before := mapSource + aRule("all", "") + aRule("late", `, where: object.data.size == "1"`)
			after := strings.Replace(before, `, where: object.data.size == "1"`, c.rule, 1)
			if c.rule == "" {
				after = before + aRule("new", "")
			}
			l.expect(l.run(before, new(teller), n(3)), "all synced a →1", "all synced b →2", "late synced a →1")
			l.put("c", "3")
			putNode(l.server, "1", "north") // as long as no bookmark comes, the server may have more to tell of maps
			told, _ := l.attempt(after, new(teller), 20*time.Second, n(1))
			l.expect(told, "all added c →3")
			l.server.Expire()
			l.delete("c")
			want := append(c.told, "all deleted c →3")
			lasting := func(told []string) []string { // that c came may be told, or merged with its end
				return slices.DeleteFunc(slices.Clone(told), func(s string) bool { return s == "late added c →3" })
			}
			told = l.run(after, new(teller), func(_ *Engine, told []string) bool { return len(lasting(told)) >= len(want) })
			l.expect(lasting(told), want...)
			l.expect(l.run(after, new(teller), n(0)))
		})
	}
}
