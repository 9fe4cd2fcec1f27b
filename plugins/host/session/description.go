package session

import (
	"encoding/json"
	"strings"

	"github.com/informd/informd/internal/printable"
	"github.com/informd/informd/plugins/handlerpb"
)

// Description is what a handler says about itself, checked and bounded.
type Description struct {
	Name         string
	Version      string
	Concurrency  int   // events at once; 0: the handler sets no limit
	WindowBytes  int64 // bytes of events at once, at most 64 MiB; 0: the handler sets no limit
	ConfigSchema json.RawMessage
	Capabilities []string
}

// Attrs returns log attributes: the handler's name and version, if it has them.
func (d Description) Attrs() []any {
	var attrs []any
	if d.Name != "" {
		attrs = append(attrs, "name", d.Name)
	}
	if d.Version != "" {
		attrs = append(attrs, "version", d.Version)
	}
	return attrs
}

func describe(d *handlerpb.DescribeResponse) Description {
	out := Description{
		Name:        printable.Line(d.GetName(), handlerpb.MaxNameBytes),
		Version:     printable.Line(d.GetVersion(), handlerpb.MaxNameBytes),
		Concurrency: int(d.GetConcurrency()),
		WindowBytes: int64(min(d.GetWindowBytes(), handlerpb.MaxWindowBytes)),
	}
	if len(d.GetConfigSchema()) <= handlerpb.MaxSchemaBytes { // a larger one is not shown
		out.ConfigSchema = d.GetConfigSchema()
	}
	capabilities := d.GetCapabilities()
	for _, c := range capabilities[:min(len(capabilities), handlerpb.MaxCapabilities)] {
		out.Capabilities = append(out.Capabilities, printable.Line(c, handlerpb.MaxNameBytes))
	}
	return out
}

// RefusedError says that a handler works but refuses its config.
type RefusedError struct{ Problems []Problem }

// Problem is one thing that a handler finds wrong with its config.
type Problem struct {
	Path    []string // the names and indexes that lead to the place; may be empty
	Message string
}

// Bounds of a refusal. The rest of a longer one is dropped.
const (
	maxProblems = 100
	maxPath     = 32
)

func refusal(problems []*handlerpb.Problem) *RefusedError {
	refused := &RefusedError{}
	for _, p := range problems[:min(len(problems), maxProblems)] {
		problem := Problem{Message: printable.Line(p.GetMessage(), handlerpb.MaxReasonBytes)}
		for _, element := range p.GetPath()[:min(len(p.GetPath()), maxPath)] {
			problem.Path = append(problem.Path, printable.Line(element, handlerpb.MaxNameBytes))
		}
		refused.Problems = append(refused.Problems, problem)
	}
	return refused
}

func (e *RefusedError) Error() string {
	var b strings.Builder
	b.WriteString("it refuses its config: ")
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteString("; ")
		}
		if len(p.Path) > 0 {
			b.WriteString(strings.Join(p.Path, ".") + ": ")
		}
		b.WriteString(p.Message)
	}
	return b.String()
}
