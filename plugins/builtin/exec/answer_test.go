package exec

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/plugins/handler"
)

// asking is a shell script whose standard output is the answer.
func asking(t *testing.T, text string) *Handler {
	t.Helper()
	config, err := json.Marshal(map[string]any{"command": []string{"sh", "-c", text}, "answers": true})
	if err != nil {
		t.Fatal(err)
	}
	h := New()
	if err := h.Configure(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	return h
}

func TestAnswers(t *testing.T) {
	const done, retry, reject = "done", "retry", "reject"
	for _, test := range []struct {
		name, script, want, reason string
		after                      time.Duration
	}{
		{"nothing, as when a pipe fails", `false | cat`, retry, `what the command printed is no answer: it is empty; write {"result": "done"}`, 0},
		{"blank", `echo; echo " "`, retry, "it is empty", 0},
		{"an empty object", `echo "{}"`, done, "", 0},
		{"done", `echo '{"result": "done"}'`, done, "", 0},
		{"spread over lines", `printf '{\n "result":\n "done"}\n\n'`, done, "", 0},
		{"with the event's id", `echo '{"id": "all/u1/updated/7"}'`, done, "", 0},
		{"retry", `echo '{"result": "retry"}'`, retry, "the command asks for it", 0},
		{"retry after", `echo '{"result": "retry", "retryAfter": "1m30s", "reason": "busy"}'`, retry, "busy", 90 * time.Second},
		{"reject", `echo '{"result": "reject", "reason": "unknown team"}'`, reject, "rejected: unknown team", 0},
		{"the exit status comes first", `echo '{"result": "done"}'; exit 1`, retry, "command: exit status 1", 0},
		{"standard error is the log's", `echo hunter2 >&2; echo '{}'`, done, "", 0},

		{"text", `echo hunter2`, retry, "what the command printed is no answer: it begins with no JSON object", 0},
		{"a log line before", `echo hunter2; echo '{}'`, retry, "it begins with no JSON object", 0},
		{"a list", `echo '["hunter2"]'`, retry, "it begins with no JSON object", 0},
		{"half an answer", `printf '{"result":'`, retry, "it begins with no JSON object", 0},
		{"two answers", `echo '{}{}'`, retry, "more follows its JSON object", 0},
		{"more after it", `echo '{} hunter2'`, retry, "more follows its JSON object", 0},
		{"another event's", `echo '{"id": "hunter2"}'`, retry, "its id is not the event's", 0},

		{"an unknown field", `echo '{"results": "hunter2"}'`, reject, `rejected: the command's answer: unknown field "results"`, 0},
		{"a field twice", `echo '{"result": "reject", "id": "all/u1/updated/7", "result": "done"}'`, reject, `the command's answer: the field "result" is there twice`, 0},
		{"a field twice deep inside", `echo '{"actions": [{"verb": "patch", "patch": {"a": [{"b": "c", "d": "b", "b": 1}]}}]}'`, reject, `the command's answer: the field "b" is there twice`, 0},
		{"fields of the same name elsewhere", `echo '{"actions": [{"verb": "patch", "patch": {"patch": [{"verb": {"verb": 1}}, {"verb": "verb"}], "verb": [1]}}]}'`, done, "", 0},
		{"a field in capitals", `echo '{"Result": "reject"}'`, reject, `unknown field "Result"`, 0},
		{"another type", `echo '{"result": 5}'`, reject, "result must not be a number", 0},
		{"another result", `echo '{"result": "hunter2"}'`, reject, "the result must be done, retry or reject", 0},
		{"actions of a retry", `echo '{"result": "retry", "actions": [{"verb": "delete"}]}'`, reject, "actions go with the result done only", 0},
		{"a reason to be done", `echo '{"reason": "hunter2"}'`, reject, "a reason goes with", 0},
		{"a delay to be done", `echo '{"retryAfter": "1s"}'`, reject, "retryAfter goes with", 0},
		{"no duration", `echo '{"result": "retry", "retryAfter": "hunter2"}'`, reject, "retryAfter must be a duration", 0},
		{"a bad verb", `echo '{"actions": [{"verb": "hunter2"}]}'`, reject, "actions[0]: the verbs are", 0},
		{"a bad patch", `echo '{"actions": [{"verb": "patch", "patch": "hunter2"}]}'`, reject, "actions[0]: the patch: is no JSON object", 0},
		{"no action", `echo '{"actions": [null]}'`, reject, "actions[0]: must be a mapping", 0},
		{"too large", `echo '{}'; head -c 8388609 /dev/zero | tr '\0' ' '`, reject, "more than 8388608 bytes", 0},
		{"too much text", `head -c 9000000 /dev/zero | tr '\0' x`, reject, "more than 8388608 bytes", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := asking(t, test.script).Handle(t.Context(), event)
			got, reason := done, ""
			if err != nil {
				got, reason = retry, err.Error()
				if errors.Is(err, handler.ErrReject) {
					got = reject
				}
			}
			if got != test.want || !strings.Contains(reason, test.reason) || strings.Contains(reason, "hunter2") {
				t.Errorf("got %q %q, want %q %q", got, reason, test.want, test.reason)
			}
			if after, _ := handler.RetryDelay(err); after != test.after {
				t.Errorf("after %v, want %v", after, test.after)
			}
		})
	}
}

// Without answers, what a command prints goes to the log, whatever it looks like.
func TestOutputIsNoAnswerUnlessConfigured(t *testing.T) {
	a, err := script(t, `echo '{"result": "reject", "actions": [{"verb": "delete"}]}'`).Handle(t.Context(), event)
	if err != nil || a.Actions != nil {
		t.Errorf("got %v, %v", a, err)
	}
}

func TestActionsOfAnAnswer(t *testing.T) {
	a, err := asking(t, `cat <<'END'
{"actions": [
  {"verb": "patch", "patch": {"metadata": {"labels": {"seen": "yes"}}}},
  {"verb": "event", "reason": "Seen", "message": "by a script"},
  {"verb": "delete", "name": "web-1", "namespace": "other"},
  {"verb": "apply", "resource": {"version": "v1", "resource": "configmaps"}, "namespace": "shop", "name": "a", "object": {"data": {"n": "9007199254740993"}}}
]}
END
`).Handle(t.Context(), event)
	if err != nil {
		t.Fatal(err)
	}
	pods, maps := handler.Resource{Version: "v1", Resource: "pods"}, handler.Resource{Version: "v1", Resource: "configmaps"}
	want := []handler.Action{
		{Verb: "patch", Resource: pods, Namespace: "shop", Name: "web-0", Patch: json.RawMessage(`{"metadata": {"labels": {"seen": "yes"}}}`)},
		{Verb: "event", Resource: pods, Namespace: "shop", Name: "web-0", Reason: "Seen", Message: "by a script"},
		{Verb: "delete", Resource: pods, Namespace: "other", Name: "web-1"},
		{Verb: "apply", Resource: maps, Namespace: "shop", Name: "a", Object: json.RawMessage(`{"data": {"n": "9007199254740993"}}`)},
	}
	if diff := cmp.Diff(want, a.Actions); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
