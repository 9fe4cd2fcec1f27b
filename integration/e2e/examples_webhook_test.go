package e2e

import (
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/handler"
)

// cloudEvent is a CloudEvent in structured mode, as a receiver sees it.
type cloudEvent struct {
	SpecVersion, ID, Source, Type, Subject, DataContentType string
	Data                                                    handler.Event
}

func TestExampleConfigMapsWebhook(t *testing.T) {
	t.Parallel()
	exclusive.Lock()
	defer exclusive.Unlock()
	k := harness.NewKube(t, cluster.Shared(t))
	listener, err := net.Listen("tcp", "127.0.0.1:8787")
	if err != nil {
		t.Fatalf("the example's webhook has a fixed address: %v", err)
	}
	events := make(chan cloudEvent, 1000) // beyond that the receiver answers 503, and the events come again
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var ev cloudEvent
		if got := r.Header.Get("Content-Type"); !strings.HasPrefix(got, "application/cloudevents+json") {
			t.Errorf("Content-Type %q", got)
		}
		if err := json.NewDecoder(r.Body).Decode(&ev); err != nil {
			t.Error(err)
		}
		select {
		case events <- ev:
			w.WriteHeader(http.StatusNoContent)
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	d := runExample(t, "configmaps-webhook.yaml")

	web := k.Create(harness.ConfigMap("web", "{colour: red}"))
	k.Patch(web, `data: {colour: green}`)
	k.Patch(web, `data: {colour: blue}`)
	k.Delete(web)
	k.Create(harness.ConfigMap("last", "{}"))

	var got []string
	for timeout := time.After(harness.Patience); len(got) < 5; {
		select {
		case ev := <-events:
			if ev.Data.Namespace != k.Ns {
				continue
			}
			if ev.SpecVersion != "1.0" || ev.ID != ev.Data.ID || ev.Source != "/informd/rules/configmaps-webhook" ||
				ev.DataContentType != "application/json" {
				t.Errorf("attributes of the CloudEvent: %+v", ev)
			}
			var o struct{ Data struct{ Colour string } }
			if err := json.Unmarshal(ev.Data.Object, &o); err != nil {
				t.Error(err)
			}
			line := strings.ReplaceAll(strings.TrimSpace(ev.Type+" "+ev.Subject+" "+o.Data.Colour), k.Ns, "NS")
			got = append(got, line)
		case <-timeout:
			t.Fatalf("not within %v: five events; these came: %q", harness.Patience, got)
		}
	}
	d.Stop()
	harness.Compare(t, []string{
		"dev.informd.added v1/configmaps/NS/web red",
		"dev.informd.updated v1/configmaps/NS/web green",
		"dev.informd.updated v1/configmaps/NS/web blue",
		"dev.informd.deleted v1/configmaps/NS/web blue",
		"dev.informd.added v1/configmaps/NS/last",
	}, got)
}
