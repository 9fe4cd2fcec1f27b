package cli

import (
	"log/slog"
	"strings"
	"testing"
)

func TestTextLog(t *testing.T) {
	var out strings.Builder
	dropTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	log := slog.New(NewTextLog(&out, &slog.HandlerOptions{ReplaceAttr: dropTime}))
	log.With("handler", "a").Error("panic", "in", "Handle",
		"stack", "goroutine 7:\nmain.handle()\n\t/x/main.go:3\nlevel=INFO msg=forged\x1b[2J", "id", "1")
	log.Info("next", "text", "one line")
	want := `level=ERROR msg=panic handler=a in=Handle id=1
    | stack:
    |   goroutine 7:
    |   main.handle()
    |   	/x/main.go:3
    |   level=INFO msg=forged [2J
level=INFO msg=next text="one line"
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
