package cli

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Whatever a command prints as JSON, and logs as JSON, says the same and has nothing that a terminal
// acts on.
func TestExecuteEscapes(t *testing.T) {
	const hostile = "a\x1b[31m\u009b31m\u202eb\x7f"
	root := &cobra.Command{Use: "x", RunE: func(cmd *cobra.Command, _ []string) error {
		slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), nil)).Info(hostile)
		text, err := json.Marshal(map[string]string{"a": hostile})
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", text)
		return err
	}}
	var out, errs strings.Builder
	if code := Execute(t.Context(), root, nil, &out, &errs); code != ExitDone {
		t.Fatal(code, errs.String())
	}
	for member, text := range map[string]string{"a": out.String(), "msg": errs.String()} {
		if strings.ContainsAny(text, "\x1b\u009b\u202e\x7f") {
			t.Errorf("a terminal would act on %q", text)
		}
		var back map[string]string
		if err := json.Unmarshal([]byte(text), &back); err != nil || back[member] != hostile {
			t.Errorf("got %q, %v", back, err)
		}
	}
}
