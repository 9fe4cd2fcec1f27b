package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
)

// receiver is a service that takes webhooks. It answers as the service documents it.
type receiver struct {
	method, path string
	token        string // of the path or the body; wrong ones are refused
	accepted     int    // status of an answer that accepts
	// check returns the status and the text of an answer that refuses, or 0.
	check func(r *http.Request, body []byte, token string) (status int, text string)

	mu     sync.Mutex
	bodies []string // that were accepted; guarded by mu
	wrong  []string // answers that refused; guarded by mu
}

func (s *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	status, text := 0, ""
	switch {
	case err != nil:
		status, text = http.StatusRequestEntityTooLarge, "too large"
	case r.Method != s.method:
		status, text = http.StatusMethodNotAllowed, r.Method
	case strings.ReplaceAll(s.path, "TOKEN", s.token) != r.URL.EscapedPath():
		status, text = http.StatusNotFound, "no_service"
	default:
		status, text = s.check(r, body, s.token)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if status == 0 {
		s.bodies = append(s.bodies, string(body))
		w.WriteHeader(s.accepted)
		return
	}
	s.wrong = append(s.wrong, fmt.Sprintf("%d %s: %s", status, text, body))
	http.Error(w, text, status)
}

func (s *receiver) got() (bodies, wrong []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.bodies), slices.Clone(s.wrong)
}

// members decodes a JSON object and returns what is wrong with its members: those that are missing,
// and those that known does not have. A nil known allows any.
func members(body []byte, required, known []string) (m map[string]any, problem string) {
	if err := json.Unmarshal(body, &m); err != nil || m == nil {
		return nil, "is no JSON object"
	}
	for _, name := range required {
		if m[name] == nil || m[name] == "" {
			return m, name + " is required"
		}
	}
	for name := range m {
		if known != nil && !slices.Contains(known, name) {
			return m, "unknown field " + name
		}
	}
	return m, ""
}

func isJSON(r *http.Request) bool {
	mediaType, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	return mediaType == "application/json"
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// slackReceiver is an incoming webhook of Slack.
func slackReceiver() *receiver {
	return &receiver{
		method: "POST", path: "/services/TOKEN", token: "T000/B000/slack-secret", accepted: 200,
		check: func(r *http.Request, body []byte, _ string) (int, string) {
			m, problem := members(body, nil, []string{"text", "blocks", "attachments", "thread_ts", "mrkdwn", "unfurl_links", "unfurl_media"})
			switch {
			case !isJSON(r) || problem != "":
				return 400, "invalid_payload"
			case text(m["text"]) == "" && m["blocks"] == nil && m["attachments"] == nil:
				return 400, "no_text"
			case utf8.RuneCountInString(text(m["text"])) > 40_000:
				return 400, "msg_too_long"
			}
			return 0, ""
		},
	}
}

// discordReceiver is a webhook of a Discord channel.
func discordReceiver() *receiver {
	return &receiver{
		method: "POST", path: "/api/webhooks/1234/TOKEN", token: "discord-secret", accepted: 204,
		check: func(r *http.Request, body []byte, _ string) (int, string) {
			m, problem := members(body, nil, nil)
			content := text(m["content"])
			switch {
			case !isJSON(r) || problem != "":
				return 400, `{"code": 50109, "message": "The request body contains invalid JSON."}`
			case content == "" && m["embeds"] == nil:
				return 400, `{"code": 50006, "message": "Cannot send an empty message"}`
			case utf8.RuneCountInString(content) > 2000 || utf8.RuneCountInString(text(m["username"])) > 80:
				return 400, `{"code": 50035, "message": "Invalid Form Body"}`
			}
			return 0, ""
		},
	}
}

// teamsReceiver is the workflow "Post to a channel when a webhook request is received".
func teamsReceiver() *receiver {
	return &receiver{
		method: "POST", path: "/workflows/TOKEN/triggers/manual/paths/invoke", token: "teams-secret", accepted: 202,
		check: func(r *http.Request, body []byte, _ string) (int, string) {
			m, problem := members(body, []string{"type", "attachments"}, nil)
			attachments, _ := m["attachments"].([]any)
			if !isJSON(r) || problem != "" || text(m["type"]) != "message" || len(attachments) == 0 || len(body) > 28<<10 {
				return 400, "TriggerInputSchemaMismatch " + problem
			}
			for _, a := range attachments {
				attachment, _ := a.(map[string]any)
				card, _ := attachment["content"].(map[string]any)
				elements, _ := card["body"].([]any)
				if text(attachment["contentType"]) != "application/vnd.microsoft.card.adaptive" ||
					text(card["type"]) != "AdaptiveCard" || text(card["version"]) == "" || len(elements) == 0 {
					return 400, "Bad adaptive card"
				}
				for _, e := range elements {
					element, _ := e.(map[string]any)
					if text(element["type"]) == "TextBlock" && text(element["text"]) == "" {
						return 400, "a TextBlock has no text"
					}
				}
			}
			return 0, ""
		},
	}
}

// pagerDutyReceiver is PagerDuty's Events API v2.
func pagerDutyReceiver() *receiver {
	return &receiver{
		method: "POST", path: "/v2/enqueue", token: strings.Repeat("0123456789abcdef", 2), accepted: 202,
		check: func(r *http.Request, body []byte, token string) (int, string) {
			m, problem := members(body, []string{"routing_key", "event_action"},
				[]string{"routing_key", "event_action", "dedup_key", "payload", "client", "client_url", "links", "images"})
			invalid := func(what string) (int, string) {
				return 400, `{"status":"invalid event","message":"Event object is invalid","errors":["` + what + `"]}`
			}
			payload, _ := m["payload"].(map[string]any)
			switch action := text(m["event_action"]); {
			case !isJSON(r) || problem != "":
				return invalid(problem)
			case text(m["routing_key"]) != token:
				return invalid("'routing_key' is invalid")
			case len(text(m["dedup_key"])) > 255:
				return invalid("'dedup_key' is too long")
			case action != "trigger" && text(m["dedup_key"]) == "":
				return invalid("'dedup_key' is missing or blank")
			case action == "resolve" || action == "acknowledge":
				return 0, ""
			case action != "trigger":
				return invalid("'event_action' is invalid")
			case text(payload["summary"]) == "" || len(text(payload["summary"])) > 1024:
				return invalid("'payload.summary' is missing, blank or too long")
			case text(payload["source"]) == "":
				return invalid("'payload.source' is missing or blank")
			case !slices.Contains([]string{"critical", "error", "warning", "info"}, text(payload["severity"])):
				return invalid("'payload.severity' is invalid")
			}
			return 0, ""
		},
	}
}

// alertmanagerReceiver is Alertmanager's API v2.
func alertmanagerReceiver() *receiver {
	labelName := regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
	check := func(alert json.RawMessage) string {
		var a struct {
			Labels, Annotations map[string]string
			StartsAt, EndsAt    time.Time
			GeneratorURL        string
		}
		d := json.NewDecoder(bytes.NewReader(alert))
		d.DisallowUnknownFields()
		if err := d.Decode(&a); err != nil {
			return err.Error()
		}
		labels := 0
		for name, value := range a.Labels {
			if !labelName.MatchString(name) {
				return "invalid label name " + name
			}
			if value != "" { // an empty one counts as absent
				labels++
			}
		}
		if a.StartsAt.IsZero() { // as Alertmanager does it
			if a.StartsAt = a.EndsAt; a.EndsAt.IsZero() {
				a.StartsAt = time.Now()
			}
		}
		switch {
		case labels == 0:
			return "at least one label pair required"
		case !a.EndsAt.IsZero() && a.EndsAt.Before(a.StartsAt):
			return "start time must be before end time"
		}
		return ""
	}
	return &receiver{
		method: "POST", path: "/api/v2/alerts", accepted: 200,
		check: func(r *http.Request, body []byte, _ string) (int, string) {
			if !isJSON(r) {
				return 415, "unsupported media type"
			}
			var alerts []json.RawMessage
			if err := json.Unmarshal(body, &alerts); err != nil {
				return 400, "parsing alerts body failed"
			}
			for _, alert := range alerts {
				if problem := check(alert); problem != "" {
					return 400, problem
				}
			}
			return 0, ""
		},
	}
}

// gitHubReceiver is POST /repos/OWNER/REPO/dispatches of GitHub's REST API.
func gitHubReceiver() *receiver {
	return &receiver{
		method: "POST", path: "/repos/my-organisation/checkout/dispatches", token: "ghp_github-secret", accepted: 204,
		check: func(r *http.Request, body []byte, token string) (int, string) {
			m, problem := members(body, []string{"event_type"}, []string{"event_type", "client_payload"})
			payload, isObject := m["client_payload"].(map[string]any)
			switch {
			case r.Header.Get("User-Agent") == "":
				return 403, "Request forbidden by administrative rules. Please make sure your request has a User-Agent header"
			case r.Header.Get("Authorization") != "Bearer "+token:
				return 401, "Bad credentials"
			case r.Header.Get("X-GitHub-Api-Version") != "2022-11-28" || r.Header.Get("Accept") != "application/vnd.github+json":
				return 415, "Unsupported"
			case problem != "":
				return 422, "Invalid request. " + problem
			case len(text(m["event_type"])) > 100:
				return 422, "event_type is too long"
			case m["client_payload"] != nil && !isObject:
				return 422, "client_payload is not an object"
			case len(payload) > 10:
				return 422, "No more than 10 properties are allowed"
			}
			return 0, ""
		},
	}
}

// The receivers refuse what the services refuse. Otherwise the tests of the presets show nothing.
func TestReceiversAreStrict(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		receiver *receiver
		good     string
		bad      []string
	}{
		"slack":   {slackReceiver(), `{"text":"x"}`, []string{`{}`, `{"text":""}`, `{"id":"1","text":"x"}`, `[]`, `x`}},
		"discord": {discordReceiver(), `{"content":"x"}`, []string{`{}`, `{"content":"` + strings.Repeat("x", 2001) + `"}`, `x`}},
		"teams": {teamsReceiver(), `{"type":"message","attachments":[{"contentType":"application/vnd.microsoft.card.adaptive",` +
			`"content":{"type":"AdaptiveCard","version":"1.4","body":[{"type":"TextBlock","text":"x"}]}}]}`,
			[]string{`{"text":"x"}`, `{"type":"message","attachments":[{}]}`, `{"type":"message"}`}},
		"pagerduty": {pagerDutyReceiver(), `{"routing_key":"0123456789abcdef0123456789abcdef","event_action":"resolve","dedup_key":"a"}`,
			[]string{`{"event_action":"resolve","dedup_key":"a"}`, `{"routing_key":"0123456789abcdef0123456789abcdef","event_action":"resolve"}`,
				`{"routing_key":"0123456789abcdef0123456789abcdef","event_action":"trigger","payload":{"summary":"a","source":"b","severity":"bad"}}`}},
		"alertmanager": {alertmanagerReceiver(), `[{"labels":{"a":"b"},"endsAt":"2026-01-01T00:00:00Z"}]`,
			[]string{`{}`, `[{}]`, `[{"labels":{"a-b":"c"}}]`, `[{"labels":{"a":1}}]`, `[{"labels":{"a":"b"},"more":1}]`,
				`[{"labels":{"a":"b"},"startsAt":"2026-01-02T00:00:00Z","endsAt":"2026-01-01T00:00:00Z"}]`}},
	} {
		post := func(body string) (status int) {
			r := httptest.NewRequest(test.receiver.method, strings.ReplaceAll(test.receiver.path, "TOKEN", test.receiver.token), strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			test.receiver.ServeHTTP(w, r)
			return w.Code
		}
		if status := post(test.good); status != test.receiver.accepted {
			t.Errorf("%s: %d for %s", name, status, test.good)
		}
		for _, body := range test.bad {
			if status := post(body); status < 400 {
				t.Errorf("%s: %d for %.100s", name, status, body)
			}
		}
	}
}

// preset is a running informd with an example of examples/webhook, and the service's receiver.
type preset struct {
	*harness.Daemon
	*harness.Kube
	receiver *receiver
}

// runPreset runs an example whose URL or host is replaced by that of the receiver. secrets are the
// files beside the manifest; URL in them stands for the receiver's.
func runPreset(t *testing.T, file, host string, s *receiver, secrets map[string]string) preset {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	content, err := os.ReadFile(filepath.Join("../../examples/webhook", file))
	if err != nil {
		t.Fatal(err)
	}
	if host != "" && !strings.Contains(string(content), host) {
		t.Fatalf("%s does not name %s", file, host)
	}
	dir := t.TempDir()
	changed := string(content)
	if host != "" {
		changed = strings.ReplaceAll(changed, host, server.URL)
	}
	changed = strings.NewReplacer("resync: 1m", "resync: 1s", "for: 5m", "for: 1s").Replace(changed)
	url := server.URL + strings.ReplaceAll(s.path, "TOKEN", s.token)
	for name, secret := range secrets {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.ReplaceAll(secret, "URL", url)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	manifest := filepath.Join(dir, file)
	if err := os.WriteFile(manifest, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	c := cluster.Shared(t)
	k := harness.NewKube(t, c)
	if code, stdout, stderr := harness.Informd(t, "check", "--handlers", "-f", manifest); code != 0 {
		t.Fatalf("check: exit code %d\n%s%s", code, stdout, stderr)
	}
	d := harness.RunInformd(t, c.Kubeconfig(), manifest)
	d.AwaitReady()
	return preset{d, k, s}
}

// sees waits until the service has accepted a body that contains all of the texts.
func (p preset) sees(texts ...string) string {
	var found string
	p.Eventually(fmt.Sprintf("a message with %q", texts), func() bool {
		bodies, _ := p.receiver.got()
		for _, body := range bodies {
			if !slices.ContainsFunc(texts, func(s string) bool { return !strings.Contains(body, p.Text(s)) }) {
				found = body
				return true
			}
		}
		return false
	})
	return found
}

// end stops informd, and checks that the service refused nothing and that no secret was logged.
func (p preset) end(t *testing.T) {
	t.Helper()
	p.Stop()
	if _, wrong := p.receiver.got(); len(wrong) > 0 {
		t.Errorf("refused: %q", wrong)
	}
	if token := p.receiver.token; token != "" && strings.Contains(p.Logged(), token) {
		t.Error("the secret is in the log")
	}
}

func TestPresetSlack(t *testing.T) {
	t.Parallel()
	p := runPreset(t, "slack.yaml", "", slackReceiver(), map[string]string{"slack-url": "URL"})
	web := p.Create(harness.Pod("web", "nginx"))
	ago := func(d time.Duration) string { return `"` + time.Now().Add(-d).UTC().Format(time.RFC3339) + `"` }
	turn := func(state string) string {
		return `status: {containerStatuses: [{name: main, image: nginx, imageID: "", ready: false, restartCount: 3, ` +
			`lastState: {terminated: {exitCode: 1, startedAt: ` + ago(time.Hour) + `, finishedAt: ` + ago(time.Hour-time.Second) + `}}, state: {` + state + `}}]}`
	}
	p.Patch(web, turn("waiting: {reason: CrashLoopBackOff}"), "status")
	p.sees(`rotating_light: crash loop: ` + "`NS/web`")
	p.Patch(web, turn("running: {startedAt: "+ago(10*time.Minute-2*time.Second)+"}"), "status")
	p.sees("no longer in a crash loop: `NS/web`")
	p.end(t)
}

func TestPresetDiscord(t *testing.T) {
	t.Parallel()
	p := runPreset(t, "discord.yaml", "", discordReceiver(), map[string]string{"discord-url": "URL"})
	p.Create(`{apiVersion: v1, kind: Event, metadata: {namespace: NS, name: warning}, type: Warning, reason: BackOff, ` +
		`message: "` + strings.Repeat("long ", 180) + `", involvedObject: {kind: Pod, namespace: NS, name: web}}`)
	p.sees("**BackOff** NS/web: long", `"allowed_mentions":{"parse":[]}`)
	p.end(t)
}

func TestPresetTeams(t *testing.T) {
	t.Parallel()
	p := runPreset(t, "teams.yaml", "", teamsReceiver(), map[string]string{"teams-url": "URL"})
	web := p.Create(`
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: NS, name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: main, image: nginx}]}}`)
	p.Patch(web, `status: {replicas: 3, unavailableReplicas: 2, readyReplicas: 1, availableReplicas: 1}`, "status")
	p.sees("Replicas are unavailable", "NS/web: 1 of 3 are available")
	p.Patch(web, `status: {replicas: 3, unavailableReplicas: 0, readyReplicas: 3, availableReplicas: 3}`, "status")
	p.sees("No replicas are missing any more", "NS/web")
	p.end(t)
}

func nodeReady(status string) string {
	return `status: {conditions: [{type: Ready, status: "` + status + `", reason: Why, lastTransitionTime: "` +
		time.Now().Add(-time.Minute).UTC().Format(time.RFC3339) + `"}]}`
}

func TestPresetPagerDuty(t *testing.T) {
	t.Parallel()
	s := pagerDutyReceiver()
	p := runPreset(t, "pagerduty.yaml", "https://events.pagerduty.com", s, map[string]string{"pagerduty-key": s.token})
	node := p.Create(`{apiVersion: v1, kind: Node, metadata: {name: NS-node}}`)
	p.Patch(node, nodeReady("False"), "status")
	key := func(body string) string {
		m, _ := members([]byte(body), nil, nil)
		return text(m["dedup_key"])
	}
	triggered := p.sees(`"event_action":"trigger"`, "Node NS-node is not ready")
	p.Patch(node, nodeReady("True"), "status")
	resolved := p.sees(`"event_action":"resolve"`, key(triggered))
	if key(triggered) == "" || key(triggered) != key(resolved) {
		t.Errorf("triggered with %s, resolved with %s", triggered, resolved)
	}
	p.end(t)
}

func TestPresetAlertmanager(t *testing.T) {
	t.Parallel()
	p := runPreset(t, "alertmanager.yaml", "http://alertmanager.monitoring.svc:9093", alertmanagerReceiver(), nil)
	node := p.Create(`{apiVersion: v1, kind: Node, metadata: {name: NS-node}}`)
	p.Patch(node, nodeReady("Unknown"), "status")
	p.Eventually("the alert to come again", func() bool {
		bodies, _ := p.receiver.got()
		return len(slices.DeleteFunc(bodies, func(body string) bool {
			return !strings.Contains(body, p.Ns+"-node") || !strings.Contains(body, `"startsAt":`) || strings.Contains(body, `"endsAt":`)
		})) >= 2
	})
	p.Patch(node, nodeReady("True"), "status")
	if body := p.sees("NS-node", `"endsAt":`); strings.Contains(body, "startsAt") {
		t.Errorf("resolved with a start: %s", body)
	}
	p.end(t)
}

func TestPresetGitHub(t *testing.T) {
	t.Parallel()
	s := gitHubReceiver()
	p := runPreset(t, "github.yaml", "https://api.github.com", s, map[string]string{"github-token": s.token})
	web := p.Create(`
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: NS, name: web, annotations: {example.com/repository: checkout}}
spec:
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: main, image: "web:1"}]}}`)
	p.Patch(web, `spec: {template: {spec: {containers: [{name: main, image: "web:2"}]}}}`)
	body := p.sees(`"event_type":"image-changed"`, `"deployment":"NS/web"`, `"images":["web:2"]`)
	m, problem := members([]byte(body), nil, nil)
	payload, _ := m["client_payload"].(map[string]any)
	if problem != "" || !slices.Equal(slices.Sorted(maps.Keys(payload)), []string{"deployment", "id", "images"}) {
		t.Errorf("%s", body)
	}
	p.end(t)
}
