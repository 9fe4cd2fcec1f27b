package action

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/plugins/handler"
)

const pods2 = `{"kind":"PodList","metadata":{%s},"items":[` +
	`{"metadata":{"name":"a","namespace":"shop","uid":"1","managedFields":[{"manager":"informd/r","operation":"Apply"}]}},` +
	`{"metadata":{"name":"b","namespace":"shop","uid":"2","managedFields":[{"manager":"informd/r","operation":"Apply"}]}}]}`

func pruned(s *server) error {
	seq := s.Begin(s.t.Context(), By{Rule: "r"}, anEvent(), nil)
	_, err := seq.Prune(s.t.Context(), pods, "of=x", func(schema.GroupVersionResource, delta.Key) bool { return false })
	return err
}

// A prune that takes long logs how far it is, and the executor knows it.
func TestProgressOfAPrune(t *testing.T) {
	var s *server
	var at []string
	now := time.Unix(0, 0)
	deletes := func(w http.ResponseWriter) {
		done, of := s.Pruning("r")
		at = append(at, fmt.Sprint(done, " of ", of))
		now = now.Add(6 * time.Second)
		answers(200, `{"kind":"Status","status":"Success"}`)(w)
	}
	s = newServer(t, answers(200, fmt.Sprintf(pods2, "")), deletes)
	s.now = func() time.Time { return now }
	if err := pruned(s); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(at, ", "); got != "0 of 2, 1 of 2" {
		t.Error(got)
	}
	if done, of := s.Pruning("r"); done != 0 || of != 0 {
		t.Errorf("at the end %d of %d", done, of)
	}
	log := s.audit.String()
	if strings.Count(log, "prune goes on") != 1 || !strings.Contains(log, "rule=r resource=v1/pods id=r/u/updated/4 done=2 of=2") {
		t.Error(log)
	}
}

func emptyPage(next string) func(http.ResponseWriter) {
	return answers(200, fmt.Sprintf(`{"kind":"PodList","metadata":{"continue":%q},"items":[]}`, next))
}

// A page without objects is legal, and others may follow.
func TestEmptyPages(t *testing.T) {
	s := newServer(t, emptyPage("x"), emptyPage("y"), answers(200, fmt.Sprintf(pods2, "")))
	found, f := s.client.listed(t.Context(), handler.Resource(pods), "of=x")
	if f != nil || len(found) == 0 || len(s.heard) != 3 {
		t.Errorf("%d objects after %d requests, %v", len(found), len(s.heard), f)
	}
}

// If the pages of a list always expire, the prune fails and is tried again like any failure. An
// answer that is no list does not mean that nothing needs pruning.
func TestPruneNeedsAWholeList(t *testing.T) {
	expired := answers(410, status(410, "Expired", "too old", ""))
	page := answers(200, fmt.Sprintf(pods2, `"continue":"x"`))
	var turns []func(http.ResponseWriter)
	for n := range maxEmptyPages + 1 {
		turns = append(turns, emptyPage(fmt.Sprint(n)))
	}
	for name, c := range map[string]struct {
		answers  []func(http.ResponseWriter)
		requests int
		says     string
	}{
		"expires again and again":     {[]func(http.ResponseWriter){page, expired, page, expired, page, expired, page, expired, page, expired}, 8, "too old"},
		"pages without objects":       {turns, maxEmptyPages + 1, "does not get on"},
		"a page that leads to itself": {[]func(http.ResponseWriter){page, page}, 2, "does not get on"},
		"no list":                     {[]func(http.ResponseWriter){answers(200, `{"kind":"Status","status":"Success"}`)}, 1, "not a list"},
	} {
		s := newServer(t, c.answers...)
		err := pruned(s)
		if err == nil || isFinal(err) || !strings.Contains(err.Error(), c.says) || len(s.heard) != c.requests {
			t.Errorf("%s: %d requests, %v", name, len(s.heard), err)
		}
	}
}
