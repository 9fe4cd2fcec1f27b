package source

import (
	"log/slog"

	"github.com/informd/informd/engine/object"
)

// Selection is what one informer watches.
type Selection = object.Selection

// attrsOf returns a selection as attributes of a log line.
func attrsOf(s Selection) []any {
	attrs := []any{slog.String("resource", object.ResourceName(s.Resource))}
	for _, more := range []slog.Attr{
		slog.String("namespace", s.Namespace),
		slog.String("labelSelector", s.LabelSelector),
		slog.String("fieldSelector", s.FieldSelector),
	} {
		if more.Value.String() != "" {
			attrs = append(attrs, more)
		}
	}
	return attrs
}
