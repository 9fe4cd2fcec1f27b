package action

import (
	"strings"
	"testing"

	"github.com/informd/informd/plugins/handler"
)

// An apply of which the API server ignores a part is in the audit as a warning. The API server tells by
// the fields that it says the rule owns.
func TestIgnoredParts(t *testing.T) {
	t.Parallel()
	own := func(more string) string {
		return `{"manager":"informd/r","operation":"Apply",` + more + `}`
	}
	others := `{"manager":"kubelet","operation":"Update","subresource":"status","fieldsV1":{"f:status":{"f:phase":{}}}},`
	for _, test := range []struct{ why, subresource, object, managed, want string }{
		{"all is there", "", `{"spec":{"a":1},"data":{"a":"b"}}`, own(`"fieldsV1":{"f:spec":{"f:a":{}},"f:data":{}}`), ""},
		{"status", "", `{"spec":{"a":1},"status":{"a":1}}`, others + own(`"fieldsV1":{"f:spec":{}}`),
			"the API server ignored status: write the status in an action of its own, with resource v1/pods/status"},
		{"nothing is left", "", `{"status":{"a":1}}`, others[:len(others)-1], "the API server ignored status"},
		{"through status", "status", `{"spec":{"a":1},"status":{"a":1}}`, own(`"fieldsV1":{"f:status":{}},"subresource":"status"`),
			"the API server ignored spec: write it in an action of its own, with resource v1/pods"},
		{"another entry", "status", `{"status":{"a":1}}`, own(`"fieldsV1":{"f:status":{}}`), "the API server ignored status"},
		{"identity", "", `{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"a":"b"}}}`, own(`"fieldsV1":{"f:metadata":{}}`), ""},
		{"what says nothing", "", `{"status":{},"spec":null,"stringData":{"a":"b"}}`, own(`"fieldsV1":{}`), ""},
		{"nobody tells", "", `{"status":{"a":1}}`, "", ""},
	} {
		answer := strings.Replace(podAt("5"), `"uid"`, `"managedFields":[`+test.managed+`],"uid"`, 1)
		s := newServer(t, answers(200, answer))
		a := handler.Action{
			Verb: handler.ActionApply, Resource: handler.Resource(pods), Subresource: test.subresource,
			Namespace: "shop", Name: "web-0", Object: []byte(test.object),
		}
		for _, by := range []By{{Rule: "r"}, {Rule: "r", Handler: "h", Confidential: true}} {
			s.audit.Reset()
			if err := s.Do(t.Context(), by, anEvent(), []handler.Action{a}); err != nil {
				t.Fatal(err)
			}
			want := test.want
			if by.Confidential && want != "" {
				want = `error="the API server ignored a part of it"`
			}
			audit := s.audit.String()
			if !strings.Contains(audit, want) || strings.Contains(audit, "level=WARN") != (want != "") {
				t.Errorf("%s: %s\nwant %s", test.why, audit, want)
			}
		}
	}
}
