package simulate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/plugins/handler"
)

// copies is a rule that applies an object of each name in an object's list.
func copies(name, spec string) string {
	return fmt.Sprintf("kind: Rule, metadata: {name: %s}, spec: {source: maps, "+
		`actions: [{forEach: object.data.to, apply: {resource: v1/secrets, object: {metadata: {namespace: t, name: "${item}"}, type: "${object.data.size}"}}}]%s}`, name, spec)
}

// want applies an object that asks for targets.
func (b *bench) want(name, size string, to ...string) {
	b.t.Helper()
	b.must(b.Apply("maps", fmt.Appendf(nil, `{"metadata":{"namespace":"shop","name":%q},"data":{"size":%q,"to":["%s"]}}`,
		name, size, strings.Join(to, `","`))))
}

// A target that fails has its own attempts: the others have what they are to have, and get a newer
// change at once.
func TestOneTargetThatFails(t *testing.T) {
	t.Parallel()
	fails := 3
	b := simulation(t, Options{Acted: func(_ Event, a handler.Action) Answer {
		if a.Name != "bad" || fails == 0 {
			return Answer{}
		}
		fails--
		return Answer{Retry: "no room"}
	}}, sizes, copies("copies", ""))
	b.want("a", "1", "x", "bad", "y")
	b.expect(0, "copies added a, apply x, apply bad, apply y")
	b.expect(time.Second, "copies added a #2 after 1s, apply bad")
	b.want("a", "2", "x", "bad", "y")
	b.expect(0, "copies added a, apply x, apply y")
	b.expect(time.Hour, "copies added a #2 after 2s, apply bad", "copies added a #3 after 6s, apply bad")
	b.must(b.Restart(Restart{}))
	b.expect(time.Hour)
}

// What the API server wants to be left alone for makes the delay longer, and a target that was refused
// is given up.
func TestTargetsThatWaitAndAreRefused(t *testing.T) {
	t.Parallel()
	answers := map[string]Answer{"late": {Retry: "no room", RetryAfter: time.Minute}, "never": {Reject: "not you"}}
	b := simulation(t, Options{Acted: func(_ Event, a handler.Action) Answer {
		answer := answers[a.Name]
		delete(answers, a.Name)
		return answer
	}}, sizes, copies("copies", ""))
	b.want("a", "1", "late", "never", "x")
	b.expect(0, "copies added a, apply late, apply never, apply x")
	b.must(b.Restart(Restart{Down: 30 * time.Second}))
	b.expect(time.Hour, "copies added a #2 after 30s, apply late, dead: actions[0]: apply of v1/secrets t/never: rejected: not you")
}

// Of two source objects that ask for one target, the first one has it. The second one gets it when
// the first one goes, is not selected any more, or asks for something else.
func TestOwners(t *testing.T) {
	t.Parallel()
	for _, restart := range []string{"no restart", "a restart", "a lost state"} {
		t.Run(restart, func(t *testing.T) {
			t.Parallel()
			selected := `kind: Source, metadata: {name: maps}, spec: {resource: v1/configmaps}`
			b := simulation(t, Options{}, selected, copies("copies", `, where: object.data.size != "0", prune: true`))
			again := func() {
				t.Helper()
				if restart != "no restart" {
					b.must(b.Restart(Restart{Down: time.Minute, Resumption: Resumption{StateLost: restart == "a lost state"}}))
				}
				b.come(time.Minute)
			}
			done := func(action string) string { // the event after a lost state was about the same
				if restart == "a lost state" {
					return ""
				}
				return action
			}
			refused := ", dead: actions[0]: apply of v1/secrets t/x: rejected: rule copies applies it for v1/configmaps shop/"
			event := func(d time.Duration, want string) {
				t.Helper()
				got := b.come(d)
				if len(got) != 1 || !strings.HasPrefix(got[0], want) {
					t.Errorf("%q, want %q", got, want)
				}
			}
			b.want("a", "1", "x", "y")
			b.expect(0, "copies added a, apply x, apply y, prunes secrets")
			b.want("b", "1", "x", "z")
			event(0, "copies added b, apply z, prunes secrets"+refused+"a")
			again()
			b.want("b", "2", "x", "z")
			event(0, "copies updated b, apply z, prunes secrets"+refused+"a")
			again()
			b.want("a", "1", "y")
			b.expect(0, "copies updated a, apply y, prunes secrets", "copies synced b, apply x"+done(", apply z")+", prunes secrets")
			again()
			b.want("a", "3", "x", "y")
			event(0, "copies updated a, apply y, prunes secrets"+refused+"b")
			again()
			b.want("b", "0", "x", "z")
			b.expect(0, "copies deleted b, prunes secrets", "copies synced a, apply x"+done(", apply y")+", prunes secrets")
			again()
			b.want("b", "1", "x")
			event(0, "copies added b, prunes secrets"+refused+"a")
			b.must(b.Delete("maps", "shop", "a"))
			b.expect(0, "copies deleted a, prunes secrets", "copies synced b, apply x, prunes secrets")
			again()
			b.must(b.Delete("maps", "shop", "b"))
			b.expect(0, "copies deleted b, prunes secrets")
			b.want("c", "1", "x")
			b.expect(0, "copies added c, apply x, prunes secrets")
		})
	}
}
