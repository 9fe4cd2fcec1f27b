package action

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/plugins/handler"
)

// resourceText is a resource as the configuration has it: apps/v1/deployments/status.
func resourceText(r schema.GroupVersionResource, subresource string) string {
	text := r.Version + "/" + r.Resource
	if r.Group != "" {
		text = r.Group + "/" + text
	}
	if subresource != "" {
		text += "/" + subresource
	}
	return text
}

// what names an action for people: patch of v1/pods shop/web-0. It comes from a handler, and may hold anything.
func what(a handler.Action) string {
	text := a.Verb + " of " + resourceText(resourceOf(a.Resource), a.Subresource) + " " + keyOf(a).String()
	if a.Verb == handler.ActionEvent {
		text = "an Event about " + resourceText(resourceOf(a.Resource), "") + " " + keyOf(a).String()
	}
	return printable(text, 512)
}

func keyOf(a handler.Action) delta.Key { return delta.Key{Namespace: a.Namespace, Name: a.Name} }

func resourceOf(r handler.Resource) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource}
}

// maxManager is how long the API server lets a field manager's name be, in bytes.
const maxManager = 128

// FieldManager is the name under which the API server keeps what a rule owns: informd/RULE. One that is too long for it is
// cut, and made distinct again by a hash.
func FieldManager(rule string) string {
	name := "informd/" + rule
	if len(name) <= maxManager {
		return name
	}
	sum := sha256.Sum256([]byte(rule))
	hash := "-" + hex.EncodeToString(sum[:8])
	return cut(name, maxManager-len(hash)) + hash
}

// cut is s, or as much of its start as n bytes hold without a broken character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// printable makes text from elsewhere fit for a log or a terminal: valid UTF-8 of some n bytes, with control characters as
// spaces.
func printable(s string, n int) string {
	short := cut(s, n)
	short = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(short, ""))
	if len(s) > n {
		short += "…"
	}
	return strings.TrimSpace(short)
}
