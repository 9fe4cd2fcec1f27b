package client

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/cmd/informd/control"
)

// What a table shows as the reason of a kind chooses the letters of that kind, and no others.
func TestReasonsThatTablesShowChooseTheirLetters(t *testing.T) {
	for want, reasons := range map[string][2]string{ // of the letters of shop/web-0 and of pay/db
		"rejected: actions[0]: patch of v1/pods …: 404 Not Found": {
			"rejected: actions[0]: patch of v1/pods shop/web-0: 404 Not Found", "rejected: actions[0]: patch of v1/pods pay/db: 404 Not Found",
		},
		`pods "…" not found`:                        {`pods "web-0" not found`, `pods "db" not found`},
		"no answer within …":                        {"no answer within 30s", "no answer within 1.5s"},
		"late since …":                              {"late since 2026-11-28T07:33:12Z", "late since 2026-11-28 07:33:13.25+01:00"},
		"late at …, said …":                         {"late at 07:33:12, said 2026/11/28", "late at 08:00:00.123456, said 2026-12-01"},
		"dial tcp 10.0.0.1:443 from port …":         {"dial tcp 10.0.0.1:443 from port 40122", "dial tcp 10.0.0.1:443 from port 9911"},
		"a copy named …-copy has uid … and is late": {"a copy named web-0-copy has uid 4751dc2f-b708-42a3-a823-6098a3cea0e4 and is late", "a copy named db-copy has uid 0bc5bc61-d8c3-492d-83d0-b3760dd2bfc3 and is late"},
		strings.Repeat("x", reasonWidth-1) + "…":    {strings.Repeat("x", 500), strings.Repeat("x", 400)},
		"the pager  said: no":                       {"the pager \nsaid: no", "the pager\x1b said: no"},
	} {
		letters := []control.Letter{
			{Rule: "r", Namespace: "shop", Name: "web-0", Reason: reasons[0]}, {Rule: "r", Namespace: "pay", Name: "db", Reason: reasons[1]},
		}
		kinds := kindsOf(letters)
		if len(kinds) != 1 || kinds[0].reason != want || kinds[0].count != 2 {
			t.Errorf("%q are %+v, want one kind %q", reasons, kinds, want)
			continue
		}
		for _, reason := range reasons {
			if text := strings.TrimSpace(strings.NewReplacer("\n", " ", "\x1b", " ").Replace(reason)); !contains(text, want) {
				t.Errorf("%q does not choose %q", want, text)
			}
		}
	}
	for _, c := range [][2]string{{"404 Not Found", "503 Service Unavailable"}, {"a … b", "b … a"}, {"no", "yes"}} {
		if contains(strings.ReplaceAll(c[1], "…", "x"), c[0]) {
			t.Errorf("%q chooses %q", c[0], c[1])
		}
	}
}

// Many letters of one kind are one line with their number, and the line below retries them. Few are
// shown one by one, and so are many that have nothing in common.
func TestManyLettersAreGrouped(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	several := func(n int, rule, reason string) (letters []control.Letter) {
		for i := range n {
			name := fmt.Sprintf("web-%d", i)
			letters = append(letters, control.Letter{
				Rule: rule, Namespace: "shop", Name: name, Died: now.Add(-time.Duration(i+1) * time.Second),
				Reason: strings.ReplaceAll(reason, "NAME", name),
			})
		}
		return letters
	}
	letters := append(several(5000, "tokens", "rejected: no token of shop/NAME: 404 Not Found"), several(3, "pages", "gave up: the pager is off")...)
	letters[0].Delivered = now
	kinds := kindsOf(letters)
	if !areMany(letters, kinds) {
		t.Error("5,003 letters of two kinds are not many")
	}
	var b strings.Builder
	chosen := selection{namespace: "shop"}
	if err := writeKinds(&b, kinds, len(letters), new(controlFlags), chosen, shape{}, now); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`LETTERS   RULE     DIED FROM   TO   SINCE THEN    REASON
5000      tokens   83m         1s   1 delivered   rejected: no token of …: 404 Not Found
3         pages    3s          1s   -             gave up: the pager is off

5003 dead letters; -o wide lists each. To retry those of the first line:
    informd dead retry --rule tokens --namespace shop --reason 'rejected: no token of …: 404 Not Found'
`, b.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for n, c := range map[string][]control.Letter{
		"few": several(maxLetters, "r", "no"), "without anything in common": several(100, "r", "no: NAMEx"),
	} {
		if areMany(c, kindsOf(c)) {
			t.Errorf("%s are many", n)
		}
	}
}

// Only a clear yes is one.
func TestAgrees(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, "Yes\n": true, " y": true, "\n": false, "": false, "n\n": false, "yesterday\n": false} {
		var b strings.Builder
		if got := agrees(strings.NewReader(answer), &b, "drop 3 dead letters of rule r?"); got != want || b.String() != "drop 3 dead letters of rule r? [y/N] " {
			t.Errorf("%q: %v, asked %q", answer, got, b.String())
		}
	}
	if isTerminal(strings.NewReader("")) {
		t.Error("a text is a terminal")
	}
}
