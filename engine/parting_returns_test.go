package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/engine/admin"
)

// sourceAndRule returns a source and a rule with the same name.
func sourceAndRule(name, selection, spec string) string {
	return fmt.Sprintf("---\napiVersion: informd.dev/v1alpha1\nkind: Source\nmetadata: {name: %s}\nspec: {resource: %s}\n", name, selection) +
		strings.Replace(aRule(name, spec), "source: maps", "source: "+name, 1)
}

// awaitSource waits until a source is ready.
func (l *life) awaitSource(e *Engine, name string) {
	l.t.Helper()
	isReady := func(s admin.SourceStatus) bool { return s.Name == name && s.Ready }
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		if e.phase.Loaded.Load() && slices.ContainsFunc(e.Status().Sources, isReady) && !catchesUp(e) {
			return
		}
		l.server.Bookmark()
	}
	l.t.Fatalf("the source %s never is ready", name)
}

// returns is what runs one after the other while rule r may not list what its source selects. Then an
// object goes, and the next run may list everything.
var returns = map[string]struct {
	runs []string // selections of r and of other, reloaded or, after "!", restarted
	want []string
}{
	"left before it has caught up":                      {[]string{"all", "!all", "some"}, both},
	"left before it has caught up, by another rule too": {[]string{"all all", "!all all", "some all"}, both},
	"it never comes back":                               {[]string{"all", "some"}, both},
	"for another rule":                                  {[]string{"all", "some", "some all"}, both},
	"for another rule, after a restart":                 {[]string{"all", "!some", "some all"}, both},
	"for another rule, by a restart":                    {[]string{"all", "some", "!some all"}, both},
	"for another rule, by two restarts":                 {[]string{"all", "!some", "!some all"}, both},
	"for another rule, and goes again":                  {[]string{"all", "some", "some all", "some"}, both},
	"for another rule, and goes for good":               {[]string{"all", "some", "some all", "!some"}, both},
	"for another rule, which returns":                   {[]string{"all", "some", "some all", "some", "some all"}, both},
	"it never goes":                                     {[]string{"all all", "some all"}, both},
	"it never goes, by a restart":                       {[]string{"all all", "!some all"}, both},
	"it never goes, by two restarts":                    {[]string{"all all", "some all", "!some all"}, both},
	"it goes later":                                     {[]string{"all all", "some all", "some"}, both},
	"it goes later, by a restart":                       {[]string{"all all", "some all", "!some"}, both},
	"it goes later, after a restart":                    {[]string{"all all", "!some all", "some"}, both},
	"for the rule":                                      {[]string{"all", "some", "all"}, []string{"r deleted gone", "r synced stays"}},
	"for the rule, by a restart":                        {[]string{"all", "some", "!all"}, []string{"r deleted gone"}},
	"for the rule, and goes again":                      {[]string{"all", "some", "all", "some"}, both},
	"for the rule, and goes for good":                   {[]string{"all", "some", "all", "!some"}, both},
	"for the rule, again and again":                     {[]string{"all", "some", "all", "some", "all"}, []string{"r deleted gone", "r synced stays"}},
	"for the rule, which leaves another":                {[]string{"all", "some", "few", "all"}, []string{"r deleted gone", "r synced stays"}},
	"for another rule, by way of a third":               {[]string{"all", "some", "few", "few all"}, both},
	"for both rules":                                    {[]string{"all", "some", "all all"}, []string{"r deleted gone", "r synced stays"}},
	"for the rule, where another stays":                 {[]string{"all all", "some all", "all all"}, []string{"r deleted gone", "r synced stays"}},
	"where both leave":                                  {[]string{"all all", "some some", "some all"}, both},
	"where both leave, one after the other":             {[]string{"all all", "some all", "some some", "some all"}, both},
}

var both = []string{"r deleted gone", "r deleted stays"}

// What a rule had inside in an informer that it has left is deleted for the rule, whatever becomes of
// the informer before the rule learns that, and however the run ends.
func TestALeftInformerThatReturns(t *testing.T) {
	t.Parallel()
	for _, resource := range []string{"configmaps", "secrets"} {
		for _, spec := range []string{"", ", delivery: every", `, where: object.data.size == "1"`} {
			for name, c := range returns {
				t.Run(resource+spec+" "+name, func(t *testing.T) {
					t.Parallel()
					of := configMaps
					if resource == "secrets" {
						of = secrets
					}
					l := newLife(t)
					for _, name := range []string{"gone", "stays"} {
						l.server.Apply(of, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q},"data":{"size":"1"}}`, name))
					}
					selects := map[string]string{
						"all": "v1/" + resource, "some": "v1/" + resource + ", labelSelector: tier=front",
						"few": "v1/" + resource + ", labelSelector: tier=back",
					}
					h := new(teller)
					manifests := func(selections string) string {
						ofR, ofOther, isTwo := strings.Cut(selections, " ")
						text := oneHandler + strings.TrimPrefix(sourceAndRule("r", selects[ofR], spec), "---")
						if isTwo {
							text += sourceAndRule("other", selects[ofOther], "")
						}
						return text
					}
					e, stop := l.startWith(manifests(c.runs[0]), h)
					l.quiet(e)
					h.since()
					for n, run := range c.runs[1:] {
						selections, isRestart := strings.CutPrefix(run, "!")
						ofR, ofOther, _ := strings.Cut(selections, " ")
						denied := resource
						if ofOther == "all" && (ofR != "all" || c.runs[0] == "all all") {
							denied = "tier"
						}
						l.server.Fail(forbid(denied))
						if isRestart {
							stop()
							e, stop = l.startWith(manifests(selections), h)
						} else if _, err := l.reload(e, manifests(selections), h); err != nil {
							t.Fatal(err)
						}
						if n == 0 {
							l.server.Delete(of, "shop", "gone")
							for isWatched := selections == "some all" && !isRestart && c.runs[0] == "all all"; isWatched; {
								h.mu.Lock()
								isWatched = !slices.ContainsFunc(h.told, func(told string) bool {
									return strings.HasPrefix(told, "other deleted gone")
								})
								h.mu.Unlock()
							}
						}
						if denied == "tier" {
							l.awaitSource(e, "other")
						}
						for !e.phase.Loaded.Load() {
							time.Sleep(time.Millisecond)
						}
					}
					stop()
					l.server.Fail(nil)
					last := manifests(strings.TrimPrefix(c.runs[len(c.runs)-1], "!"))
					var told []string
					for range 2 { // another run delivers nothing more
						e, stop = l.startWith(last, h)
						l.quiet(e)
						stop()
					}
					for _, event := range h.since() {
						if text, isOfR := strings.CutPrefix(event, "r "); isOfR {
							told = append(told, "r "+strings.Join(strings.Fields(text)[:2], " "))
						}
					}
					expect(t, "told", told, c.want...)
				})
			}
		}
	}
}
