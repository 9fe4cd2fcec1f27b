// Package exec is the builtin that runs a command for each event, with the event as JSON on its standard input.
//
// The command's exit status is the answer: 0 is done, 64 to 78 (the range of sysexits.h) reject, anything else, a signal
// and a command that cannot be started included, is a retry. It runs in a process group of its own, of which nothing is
// left when the event is answered: the group is asked to end (SIGTERM) when the event's time is over, and killed two
// seconds later; what the command left behind when it exited is killed too. Its output goes to the log, line by line and
// bounded, and never into the answer: it may hold what the event held.
//
// It knows nothing of shells, and does not look for processes that left the group.
package exec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/informd/informd/plugins/builtin/internal/eventjson"
	"github.com/informd/informd/plugins/builtin/internal/strict"
	"github.com/informd/informd/plugins/handler"
)

// Handler is the exec builtin. New makes one.
type Handler struct {
	command     []string // as configured
	path        string   // of command[0], absolute
	environment []string // what every command gets
}

// New makes an exec builtin, which takes events once it is configured.
func New() *Handler { return new(Handler) }

// The bounds of command, well inside what the kernel takes.
const (
	maxArguments = 256
	maxBytes     = 64 << 10
)

const schema = `{"type":"object","additionalProperties":false,"required":["command"],"properties":{` +
	`"command":{"type":"array","minItems":1,"maxItems":256,"items":{"type":"string"}}}}`

// Describe implements handler.Describer.
func (*Handler) Describe() handler.Description {
	return handler.Description{Name: "exec", ConfigSchema: json.RawMessage(schema)}
}

// Configure implements handler.Configurer. It refuses a command that is not there, not executable, or closed to
// the sandbox that it runs in.
func (h *Handler) Configure(_ context.Context, config json.RawMessage) error {
	var command []string
	if err := strict.Decode(config, strict.Fields{"command": &command}); err != nil {
		return err
	}
	path, err := check(command)
	if err != nil {
		return err
	}
	h.command, h.path, h.environment = command, path, inherited(os.Environ())
	keepDescriptors()
	return nil
}

// keepDescriptors keeps what this process itself inherited (the daemon's standard output, the open executable) from
// commands, which could hold it open for longer. Descriptors that Go opens are kept from them anyway.
func keepDescriptors() {
	entries, _ := os.ReadDir("/dev/fd") // where there is none, there is nothing to be done
	for _, entry := range entries {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}

// check tells where the command's executable is, or everything that is wrong with it.
func check(command []string) (path string, err error) {
	if len(command) == 0 {
		return "", errors.New(`command: required, a list such as ["./notify", "--verbose"]`)
	}
	if len(command) > maxArguments {
		return "", fmt.Errorf("command: has %d items, at most %d are allowed", len(command), maxArguments)
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
		problems = append(problems, fmt.Errorf("command: is %d bytes long, at most %d are allowed", size, maxBytes))
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
	case errors.Is(err, exec.ErrNotFound) && os.Getenv("PATH") == "":
		return "", fmt.Errorf("command[0]: %q is looked for in PATH, which is empty: give its path, or add PATH to the handler's env", name)
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("command[0]: %q is not an executable in PATH", name)
	case errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("command[0]: %q does not exist", name)
	case errors.Is(err, os.ErrPermission):
		return "", fmt.Errorf("command[0]: %q is not executable", name)
	}
	return "", fmt.Errorf("command[0]: %w", err)
}

// openable tells of an executable that a sandbox keeps from being opened, and thereby from being executed, although its
// mode allows it. What may be executed and not be read by its mode is taken for executable.
func openable(path string) error {
	const read = 0x4 // R_OK of access(2), which knows nothing of sandboxes
	if syscall.Access(path, read) != nil {
		return nil
	}
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("command[0]: %q is closed to the handler's sandbox: name it, or its folder, in files.read", path)
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
	out := newOutput(slog.Default().With("rule", ev.Rule, "key", key(ev)))
	status, err := run(ctx, process{
		path:        h.path,
		arguments:   h.command,
		environment: append(h.environment[:len(h.environment):len(h.environment)], about(ev)...),
		input:       append(input, '\n'),
		stdout:      out.stream("stdout"),
		stderr:      out.stream("stderr"),
	})
	out.end()
	if err != nil {
		return handler.Answer{}, err
	}
	return handler.Answer{}, verdict(ctx, status)
}

// The exit statuses that reject an event: EX__BASE to EX__MAX of sysexits.h.
const (
	rejectFirst = 64
	rejectLast  = 78
)

// verdict is the answer that a command's end gives.
func verdict(ctx context.Context, status *os.ProcessState) error {
	switch code := status.ExitCode(); {
	case code == 0:
		return nil
	case ctx.Err() != nil: // whatever it said when it was told to end, it was not given the time to handle the event
		return fmt.Errorf("command was ended (%v): %w", status, context.Cause(ctx))
	case code >= rejectFirst && code <= rejectLast:
		return handler.Reject(fmt.Errorf("command: %v", status))
	}
	return fmt.Errorf("command: %v", status)
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

// about tells the command of ev what a script would otherwise parse JSON for.
func about(ev handler.Event) []string {
	return []string{
		"INFORMD_EVENT=" + ev.Event,
		"INFORMD_RULE=" + ev.Rule,
		"INFORMD_NAMESPACE=" + ev.Namespace,
		"INFORMD_NAME=" + ev.Name,
	}
}

// inherited is what of the handler's own environment a command gets: all but what informd and go-plugin tell their own
// process.
func inherited(environment []string) []string {
	own := map[string]bool{
		"PLUGIN_CLIENT_CERT": true, "PLUGIN_MAX_PORT": true, "PLUGIN_MIN_PORT": true, "PLUGIN_MULTIPLEX_GRPC": true,
		"PLUGIN_PROTOCOL_VERSIONS": true, "PLUGIN_UNIX_SOCKET_DIR": true, "PLUGIN_UNIX_SOCKET_GROUP": true,
	}
	var kept []string
	for _, variable := range environment {
		name, _, _ := strings.Cut(variable, "=")
		if !own[name] && !strings.HasPrefix(name, "INFORMD_") {
			kept = append(kept, variable)
		}
	}
	return kept
}
