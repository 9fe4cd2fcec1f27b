package othersyntax

import "testing"

func TestFind(t *testing.T) {
	t.Parallel()
	const (
		ofGo     = "{{ }} is the syntax of Go and Helm: write "
		ofGitHub = "${{ }} is the syntax of GitHub Actions: write "
		ofTekton = "$( ) is the syntax of Kubernetes and Tekton: write "
	)
	of := func(path string) string { return path + ` in an expression, and "${` + path + `}" in a text` }
	for text, want := range map[string]struct {
		at       int
		advice   string
		isObject bool
	}{
		"{{ .metadata.name }}":             {0, ofGo + of("object.metadata.name"), true},
		"{{- .spec.owner.name -}}":         {0, ofGo + of("object.spec.owner.name"), true},
		"a {{ .object.metadata.name }}":    {2, ofGo + of("object.metadata.name"), true},
		"{{ .Object.metadata.name }}":      {0, ofGo + of("object.metadata.name"), true},
		"{{ $.spec.x | upper }}":           {0, ofGo + of("object.spec.x"), true},
		"{{object.spec.x}} b":              {0, ofGo + of("object.spec.x"), true},
		"{{ old.spec.x }}":                 {0, ofGo + of("old.spec.x"), true},
		"deny-{{ .Namespace }}":            {5, ofGo + of("object.metadata.namespace"), false},
		"{{ namespace }}":                  {0, ofGo + of("object.metadata.namespace"), false},
		"{{ .Labels.app }}":                {0, ofGo + of("object.metadata.labels.app"), false},
		"{{.kind}}":                        {0, ofGo + of("object.kind"), false},
		"{{ metadata.name }}":              {0, ofGo + of("object.metadata.name"), false},
		"{{ range .items }}":               {0, ofGo + of("object.metadata.name"), false},
		"{{ foo }}":                        {0, ofGo + of("object.metadata.name"), false},
		"{{ .Values.a }}":                  {0, "this is a template of Helm: render it first, with helm template", false},
		"x ${{ object.metadata.name }}":    {2, ofGitHub + of("object.metadata.name"), true},
		"$(object.metadata.name)":          {0, ofTekton + of("object.metadata.name"), true},
		"$(NAME) and {{ .metadata.name }}": {0, ofTekton + of("object.metadata.name"), false},
	} {
		got, ok := Find(text)
		if !ok || got.Offset != want.at || got.Advice != want.advice || got.IsObject != want.isObject {
			t.Errorf("%s: %t %+v\nwant %+v", text, ok, got, want)
		}
	}
	for _, text := range []string{
		"", "{{", "}}", "{{ }}", `{{"a": 1}}`, `map(x, {{a: .b}})`, "${ {a: 1} }", "${{a: 1}}", "$()", "$(",
		`{{(x): 1}}`, "${object.metadata.name}", "{ {a} }",
	} {
		if got, ok := Find(text); ok {
			t.Errorf("%s: %+v, want nothing", text, got)
		}
	}
}
