// Package exec is the builtin that runs a command for each event, with the event as JSON on its
// standard input.
//
// The command's exit status is the answer: 0 is done, 64 to 78 (the range of sysexits.h) reject.
// Any other status is a retry, and so are a signal and a command that cannot be started. If the
// config asks for answers, a command that exits with 0 says more on its standard output: actions, a
// retry after some time, or a reject. If it asks for lines, one process gets one event
// after the other, and answers each with a line.
//
// The command runs in a process group of its own. When the event's time is over, the group gets
// SIGTERM, and two seconds later SIGKILL. When the command exits, the rest of its group is killed.
// So nothing of the group is left when the event is answered, but for the process of lines, which
// stays for the next event. The command's output that is no answer goes to the log, line by line
// and bounded, and never into a reason, because it may contain what the event contains.
//
// Commands read the cache as the handler itself does: they have the address of its socket, which
// serves the handler's process and its descendants.
//
// The package knows nothing of shells, and does not look for processes that left the group.
package exec

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/informd/informd/plugins/builtin/internal/eventjson"
	"github.com/informd/informd/plugins/handler"
)

// Handler is the exec builtin. New returns one.
type Handler struct {
	command     []string // as configured
	path        string   // of command[0], absolute
	environment []string // what every command gets
	answers     bool     // standard output is the answer
	lines       *lines   // nil: each event has a process of its own
}

// New returns an exec builtin. It takes events once it is configured.
func New() *Handler { return new(Handler) }

// The bounds of command, well inside what the kernel takes.
const (
	maxArguments = 256
	maxBytes     = 64 << 10
)

const schema = `{"type":"object","additionalProperties":false,"required":["command"],` +
	`"properties":{"command":{"type":"array","minItems":1,"maxItems":256,` +
	`"items":{"type":"string"}},` +
	`"answers":{"type":"boolean","default":false},"lines":{"type":"boolean","default":false}}}`

// Describe implements handler.Describer.
func (*Handler) Describe() handler.Description {
	return handler.Description{Name: "exec", ConfigSchema: json.RawMessage(schema)}
}

// config is a manifest's config.
type config struct {
	Command []string `json:"command"`
	Answers bool     `json:"answers"`
	Lines   bool     `json:"lines"`

	_ struct{} `instead:"args: the arguments follow the program in command"`
	_ struct{} `instead:"env: spec.env names variables to pass on"`
	_ struct{} `instead:"script: write command: [sh, -c, \"…\"]"`
}

// Validate checks the command. handler.DecodeConfig calls it.
func (c config) Validate() error {
	_, err := check(c.Command)
	return err
}

// Configure implements handler.Configurer. It refuses a command that does not exist, that is not
// executable, or that the handler's sandbox keeps closed.
func (h *Handler) Configure(_ context.Context, raw json.RawMessage) error {
	c, err := handler.DecodeConfig(raw, config{})
	if err != nil {
		return err
	}
	path, err := check(c.Command)
	if err != nil {
		return err
	}
	h.command, h.path, h.environment = c.Command, path, inherited(os.Environ())
	h.answers = c.Answers
	if c.Lines {
		h.lines = newLines(path, c.Command, h.environment)
	}
	keepDescriptors()
	return nil
}

// keepDescriptors keeps commands from inheriting what this process itself inherited: the daemon's
// standard output and the open executable. A command could hold them open for longer. It never
// inherits what Go opens.
func keepDescriptors() {
	entries, _ := os.ReadDir("/dev/fd") // without it there is nothing to do
	for _, entry := range entries {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}

// check returns the path of the command's executable, or everything that is wrong with the command.
func check(command []string) (path string, err error) {
	if len(command) == 0 {
		return "", errors.New(`command: required, a list such as ["./notify", "--verbose"]`)
	}
	if len(command) > maxArguments {
		return "", fmt.Errorf("command: has %d items, at most %d are allowed",
			len(command), maxArguments)
	}
	var problems []error
	size := 0
	for i, argument := range command {
		size += len(argument)
		if strings.ContainsRune(argument, 0) {
			problems = append(problems, fmt.Errorf("command[%d]: holds a NUL character", i))
		}
	}
	if size > maxBytes {
		problems = append(problems,
			fmt.Errorf("command: is %d bytes long, at most %d are allowed", size, maxBytes))
	}
	if len(problems) > 0 {
		return "", errors.Join(problems...)
	}
	return find(command[0])
}

// find finds an executable: by its path, relative to the working directory, or by its name in PATH.
func find(name string) (string, error) {
	if name == "" {
		return "", errors.New("command[0]: must not be empty")
	}
	path, err := exec.LookPath(name)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	switch {
	case err == nil:
		return path, openable(path)
	case errors.Is(err, exec.ErrDot):
		return "", fmt.Errorf("command[0]: %q is in the working directory: write ./%s", name, name)
	case strings.Contains(strings.TrimSpace(name), " ") && !errors.Is(err, os.ErrPermission):
		return "", fmt.Errorf("command[0]: %q does not exist: there is no shell, so write each "+
			"argument as an item of its own, or [sh, -c, \"…\"]", name)
	case errors.Is(err, exec.ErrNotFound) && os.Getenv("PATH") == "":
		return "", fmt.Errorf("command[0]: %q is looked for in PATH, which is empty: "+
			"give its path, or add PATH to the handler's env", name)
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("command[0]: %q is not an executable in PATH", name)
	case errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("command[0]: %q does not exist", name)
	case errors.Is(err, os.ErrPermission):
		return "", fmt.Errorf("command[0]: %q is not executable", name)
	}
	return "", fmt.Errorf("command[0]: %w", err)
}

// openable returns an error if the sandbox keeps an executable closed although its mode allows
// reading it. A sandbox that keeps a file closed does not execute it either. A file whose mode
// allows executing but not reading counts as executable.
func openable(path string) error {
	const read = 0x4 // R_OK of access(2), which knows nothing of sandboxes
	if syscall.Access(path, read) != nil {
		return nil
	}
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("command[0]: %q is closed to the handler's sandbox: "+
			"name it, or its folder, in files.read", path)
	}
	if err != nil {
		return fmt.Errorf("command[0]: %w", err)
	}
	return file.Close()
}

// Handle runs the command for ev.
func (h *Handler) Handle(ctx context.Context, ev handler.Event) (handler.Answer, error) {
	if len(h.command) == 0 {
		return handler.Answer{}, errors.New("exec is not configured")
	}
	input, err := eventjson.Append(nil, ev)
	if err != nil {
		return handler.Answer{}, handler.Reject(err) // no attempt will go better
	}
	input = append(input, '\n')
	log := slog.Default().With("rule", ev.Rule, "key", key(ev), "id", ev.ID)
	if h.lines != nil {
		return h.lines.handle(ctx, &ev, input, log)
	}
	out := newOutput(func() *slog.Logger { return log }, maxLines)
	var answer answerText
	stdout := io.Writer(&answer)
	if !h.answers {
		stdout = out.stream("stdout")
	}
	status, err := run(ctx, process{
		path:        h.path,
		arguments:   h.command,
		environment: append(h.environment[:len(h.environment):len(h.environment)], about(ev)...),
		input:       bytes.NewReader(input),
		stdout:      stdout,
		stderr:      out.stream("stderr"),
	})
	out.end()
	if err == nil {
		err = verdict(ctx, status)
	}
	switch {
	case err != nil || !h.answers:
		return handler.Answer{}, err
	case len(answer.text) > maxAnswer:
		return handler.Answer{}, handler.Reject(
			fmt.Errorf("the command's answer has more than %d bytes", maxAnswer))
	}
	return parseAnswer(answer.text, &ev, false)
}

// The exit statuses that reject an event: EX__BASE to EX__MAX of sysexits.h.
const (
	rejectFirst = 64
	rejectLast  = 78
)

// verdict returns the answer that a command's end means.
func verdict(ctx context.Context, status *os.ProcessState) error {
	switch code := status.ExitCode(); {
	case code == 0:
		return nil
	case ctx.Err() != nil: // the handler ended the command early, so its status says nothing
		return fmt.Errorf("command was ended (%v): %w", status, context.Cause(ctx))
	case code >= rejectFirst && code <= rejectLast:
		return handler.Reject(fmt.Errorf("command: %v", status))
	}
	return fmt.Errorf("command: %v", status)
}

// Drain implements handler.Drainer: it ends the process of lines.
func (h *Handler) Drain(ctx context.Context) error {
	if h.lines == nil {
		return nil
	}
	return h.lines.drain(ctx)
}

// Health implements handler.HealthChecker: the command must still be there.
func (h *Handler) Health(context.Context) error {
	if len(h.command) == 0 {
		return nil
	}
	_, err := find(h.path)
	return err
}

func key(ev handler.Event) string {
	if ev.Namespace == "" {
		return ev.Name
	}
	return ev.Namespace + "/" + ev.Name
}

// about returns variables with what a script would otherwise have to parse JSON for. Those of the
// epoch and of the trace are there only if the event has one. TRACEPARENT has the name by which
// OpenTelemetry's tools find it.
func about(ev handler.Event) []string {
	variables := []string{
		"INFORMD_EVENT=" + ev.Event,
		"INFORMD_RULE=" + ev.Rule,
		"INFORMD_NAMESPACE=" + ev.Namespace,
		"INFORMD_NAME=" + ev.Name,
	}
	if !ev.Epoch.IsZero() {
		variables = append(variables, "INFORMD_EPOCH="+ev.Epoch.String())
	}
	if ev.Traceparent != "" {
		variables = append(variables, "TRACEPARENT="+ev.Traceparent)
	}
	return variables
}

// inherited returns the handler's own environment without the variables that informd and go-plugin
// set for the handler alone. The socket of the cache is for its commands, too; if there is one,
// they find informd in PATH.
func inherited(environment []string) []string {
	var kept []string
	mayRead := false
	for _, variable := range environment {
		name, _, _ := strings.Cut(variable, "=")
		switch {
		case name == cacheSocket:
			mayRead = true
		case strings.HasPrefix(name, "INFORMD_"), slices.Contains(ofGoPlugin, name):
			continue
		}
		kept = append(kept, variable)
	}
	if mayRead {
		kept = withInformd(kept)
	}
	return kept
}

// withInformd appends the folder of this executable to PATH, so that commands find informd get.
func withInformd(environment []string) []string {
	self, err := os.Executable()
	if err != nil {
		return environment
	}
	for i, variable := range environment {
		if path, ok := strings.CutPrefix(variable, "PATH="); ok {
			folders := append(filepath.SplitList(path), filepath.Dir(self))
			environment[i] = "PATH=" + strings.Join(folders, string(filepath.ListSeparator))
			return environment
		}
	}
	return append(environment, "PATH="+usualPath+":"+filepath.Dir(self))
}

// usualPath is where shells look if they get no PATH. With one that names informd's folder alone,
// they would find nothing else.
const usualPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// cacheSocket is handlerpb.EnvCacheSocket. informd sets it if the manifest has access.read.
const cacheSocket = "INFORMD_CACHE_SOCKET"

var ofGoPlugin = []string{
	"PLUGIN_CLIENT_CERT", "PLUGIN_MAX_PORT", "PLUGIN_MIN_PORT", "PLUGIN_MULTIPLEX_GRPC",
	"PLUGIN_PROTOCOL_VERSIONS", "PLUGIN_UNIX_SOCKET_DIR", "PLUGIN_UNIX_SOCKET_GROUP",
}
