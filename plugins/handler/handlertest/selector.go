package handlertest

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// selector is a label selector as kubectl's -l has it: tier in (web, api),!canary. It is a list of
// requirements that all have to hold.
type selector []requirement

// requirement is what one label must be like.
type requirement struct {
	key      string
	operator string // exists, !, =, !=, in, notin, > or <
	values   []string
}

// errSelector says that a text is no selector.
var errSelector = errors.New("it does not parse")

// maxSelector bounds a selector, in bytes, as informd does.
const maxSelector = 1 << 10

// parseSelector returns a selector. The empty text selects everything.
func parseSelector(text string) (selector, error) {
	if len(text) > maxSelector {
		return nil, fmt.Errorf("it is longer than %d bytes", maxSelector)
	}
	p := &selectorParser{tokens: selectorToken.FindAllString(text, -1)}
	if len(p.tokens) == 0 {
		return nil, nil
	}
	var s selector
	for {
		r, err := p.requirement()
		if err != nil {
			return nil, err
		}
		s = append(s, r)
		switch next := p.next(); next {
		case "":
			return s, nil
		case ",":
		default:
			return nil, fmt.Errorf("%w: %q where a comma or the end is expected", errSelector, next)
		}
	}
}

// selectorToken is an operator, or what stands between operators and spaces.
var selectorToken = regexp.MustCompile(`==|!=|[=!<>(),]|[^ \t\r\n=!<>(),]+`)

type selectorParser struct{ tokens []string }

// next takes a token; empty: there are no more.
func (p *selectorParser) next() string {
	token := p.peek()
	if token != "" {
		p.tokens = p.tokens[1:]
	}
	return token
}

func (p *selectorParser) peek() string {
	if len(p.tokens) == 0 {
		return ""
	}
	return p.tokens[0]
}

func (p *selectorParser) requirement() (r requirement, err error) {
	r.operator = "exists"
	if p.peek() == "!" {
		r.operator = p.next()
	}
	if r.key = p.next(); !isLabelKey(r.key) {
		return r, fmt.Errorf("%w: %q is no label", errSelector, r.key)
	}
	if next := p.peek(); next == "" || next == "," {
		return r, nil
	} else if r.operator == "!" {
		return r, fmt.Errorf("%w: %q after !%s", errSelector, next, r.key)
	}
	switch r.operator = p.next(); r.operator {
	case "in", "notin":
		r.values, err = p.list()
	case "=", "==", "!=", ">", "<":
		r.values = []string{p.value()}
	default:
		return r, fmt.Errorf("%w: %q is no operator", errSelector, r.operator)
	}
	if r.operator == "==" {
		r.operator = "="
	}
	if err != nil {
		return r, err
	}
	for _, v := range r.values {
		if !isLabelValue(v) {
			return r, fmt.Errorf("%w: %q is no value of a label", errSelector, v)
		}
		if r.operator != ">" && r.operator != "<" {
			continue
		}
		if _, err := strconv.ParseInt(v, 10, 64); err != nil {
			return r, fmt.Errorf("%w: %q is no integer", errSelector, v)
		}
	}
	return r, nil
}

// value takes a value, which may be empty.
func (p *selectorParser) value() string {
	if next := p.peek(); next == "" || next == "," || next == ")" {
		return ""
	}
	return p.next()
}

// list takes values in parentheses.
func (p *selectorParser) list() (values []string, err error) {
	if next := p.next(); next != "(" {
		return nil, fmt.Errorf("%w: %q where ( is expected", errSelector, next)
	}
	for {
		values = append(values, p.value())
		switch next := p.next(); next {
		case ")":
			return values, nil
		case ",":
		default:
			return nil, fmt.Errorf("%w: %q where a comma or ) is expected", errSelector, next)
		}
	}
}

// matches reports whether an object with these labels is selected.
func (s selector) matches(labels map[string]string) bool {
	return !slices.ContainsFunc(s, func(r requirement) bool { return !r.matches(labels) })
}

func (r requirement) matches(labels map[string]string) bool {
	value, has := labels[r.key]
	switch r.operator {
	case "exists":
		return has
	case "!":
		return !has
	case "=", "in":
		return has && slices.Contains(r.values, value)
	case "!=", "notin":
		return !has || !slices.Contains(r.values, value)
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if !has || err != nil {
		return false
	}
	bound, _ := strconv.ParseInt(r.values[0], 10, 64) // parseSelector has tried it
	return r.operator == ">" && n > bound || r.operator == "<" && n < bound
}

var (
	labelName = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)
	dnsName   = regexp.MustCompile(
		`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
)

const (
	maxLabelName = 63
	maxDNSName   = 253
)

func isLabelKey(key string) bool {
	prefix, name, hasPrefix := strings.Cut(key, "/")
	if !hasPrefix {
		prefix, name = "", key
	}
	return len(name) <= maxLabelName && labelName.MatchString(name) &&
		(!hasPrefix || len(prefix) <= maxDNSName && dnsName.MatchString(prefix))
}

func isLabelValue(value string) bool {
	return value == "" || len(value) <= maxLabelName && labelName.MatchString(value)
}
