package config

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

var (
	builtins  = []string{"log", "exec", "webhook"}
	logLevels = []string{"debug", "info", "warn", "error"}
)

// Bounds and defaults of a handler's fields.
const (
	maxConcurrency = 1024

	minTimeout     = time.Millisecond
	maxTimeout     = day
	defaultTimeout = 30 * time.Second

	maxAttempts       = 1_000_000
	minBackoff        = time.Millisecond
	maxBackoff        = day
	defaultBackoff    = time.Second
	defaultMaxBackoff = 5 * time.Minute
)

func (r *reader) handler(n, at *yaml.Node, name Text) {
	spec := r.mapping(n, at, "spec", handlerFields)
	r.exactlyOne(spec)
	h := Handler{
		Name:        name.String(),
		At:          name,
		Command:     r.command(spec.get("command")),
		Remote:      r.remote(spec),
		SHA256:      r.sha256(spec.get("sha256")),
		Env:         r.env(spec.get("env")),
		Config:      r.json(spec.get("config"), "spec.config"),
		ConfigAt:    Place{spec.key["config"], spec.value["config"], r.file},
		Concurrency: spec.whole("concurrency"),
		Timeout:     spec.span("timeout"),
		Retry:       r.retry(spec.get("retry"), spec.key["retry"]),
		LogLevel:    r.logLevel(spec.get("logLevel")),
		User:        r.user(spec.get("user")),
		Limits:      r.limits(spec.get("limits"), spec.key["limits"]),
		Sandbox:     r.sandbox(spec),
	}
	h.Read, h.Write = r.access(spec)
	if builtin := spec.get("builtin"); builtin != nil {
		if i := spec.choice("builtin"); !r.reported[builtin] {
			h.Builtin = builtins[i]
			r.execWrites(h, spec)
		}
	}
	r.config.Handlers = append(r.config.Handlers, h)
}

// logLevel reads the lowest level of a handler's log that informd shows.
func (r *reader) logLevel(n *yaml.Node) string {
	if n == nil {
		return ""
	}
	i := r.choice(n, "spec.logLevel", logLevels)
	if r.reported[n] {
		return ""
	}
	return logLevels[i]
}

// exactlyOne checks that the handler is a command, a builtin or an address, and the fields that
// belong to it.
func (r *reader) exactlyOne(spec mapping) {
	var ways []string
	for _, way := range []string{"command", "builtin", "address"} {
		if spec.has(way) {
			ways = append(ways, way)
		}
	}
	switch {
	case len(ways) > 1:
		r.mistake(spec.key[ways[1]], "spec.%s and spec.%s exclude each other", ways[0], ways[1])
	case len(ways) == 0 && spec.at != nil && !slices.ContainsFunc(builtins, spec.has):
		r.mistake(spec.at, "spec.command, spec.builtin (%s) or spec.address is missing",
			oneOf(builtins))
	}
	if spec.has("sha256") && spec.has("builtin") && !spec.has("command") {
		r.mistake(spec.key["sha256"],
			"spec.sha256 goes with spec.command only; a builtin is part of informd")
	}
	r.remoteFields(spec)
}

// command reads the program and its arguments. A program with a slash is a path relative to the
// manifest's folder; one without is looked up in $PATH.
func (r *reader) command(n *yaml.Node) []string {
	if n != nil && n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" {
		if words := strings.Fields(n.Value); len(words) > 0 {
			r.mistake(n, "spec.command is a list: write [%s]",
				clip(strings.Join(words, ", "), maxQuoted))
			return nil
		}
	}
	var out []string
	for i, item := range r.list(n, "spec.command", "strings") {
		if i > 0 && item.Kind == yaml.ScalarNode && item.ShortTag() == "!!str" && item.Value == "" {
			out = append(out, "")
			continue
		}
		out = append(out, r.str(item, "an element of spec.command"))
	}
	if len(out) > 0 && strings.Contains(out[0], "/") {
		out[0] = join(r.dir, out[0])
	}
	return out
}

// join is filepath.Join, but keeps the slash that distinguishes a path from a name to look up.
func join(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	path = filepath.Join(dir, path)
	if !strings.Contains(path, "/") {
		path = "./" + path
	}
	return path
}

var sha256Digits = regexp.MustCompile(`^[0-9a-f]{64}$`)

func (r *reader) sha256(n *yaml.Node) string {
	if n == nil || r.reported[n] {
		return ""
	}
	digits := strings.ToLower(n.Value) // YAML reads digits alone as a number
	if n.Kind != yaml.ScalarNode || !sha256Digits.MatchString(digits) {
		r.mistake(n, "spec.sha256 must be 64 hexadecimal digits, as sha256sum prints them")
		return ""
	}
	return digits
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// protocolEnv matches the variables that informd sets itself for each handler. One of that name in
// informd's own environment would never reach the handler.
var protocolEnv = regexp.MustCompile(
	`^(INFORMD_(LOG_LEVEL|CACHE_SOCKET|HANDLER_COOKIE|STDOUT_FD)|PLUGIN_.*)$`)

func (r *reader) env(n *yaml.Node) []string {
	return r.set(n, "spec.env", "names", func(s string) string {
		switch {
		case strings.Contains(s, "="):
			return "spec.env has names only; the values come from informd's own environment"
		case !envName.MatchString(s):
			return quote(s) + " is not the name of an environment variable: " +
				"use letters, digits and _, and begin with a letter or _"
		case s == "INFORMD_LOG_LEVEL":
			return "informd sets INFORMD_LOG_LEVEL itself: " +
				"leave it out of spec.env, and set spec.logLevel"
		case protocolEnv.MatchString(s):
			return "informd sets " + quote(s) + " itself for each handler: " +
				"leave it out of spec.env"
		}
		return ""
	})
}

func (r *reader) retry(n, at *yaml.Node) Retry {
	f := r.mapping(n, at, "spec.retry", retryFields)
	out := Retry{
		Attempts:   f.whole("attempts"),
		Backoff:    f.span("backoff"),
		MaxBackoff: f.span("maxBackoff"),
	}
	longest := f.get("maxBackoff")
	if longest == nil {
		out.MaxBackoff = max(out.MaxBackoff, out.Backoff)
	}
	if longest != nil && out.MaxBackoff < out.Backoff {
		r.mistake(longest,
			"spec.retry.maxBackoff (%s) must not be less than spec.retry.backoff (%s)",
			ShortDuration(out.MaxBackoff), ShortDuration(out.Backoff))
	}
	return out
}
