package handler

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/informd/informd/plugins/handler/nearest"
)

// DecodeConfig decodes the config that Configure gets, strictly, over the defaults:
//
//	c, err := handler.DecodeConfig(raw, config{Threshold: 3, Window: 10 * time.Minute})
//
// T is a struct. Its fields have the names of their json tags, and upper and lower case differ.
// DecodeConfig refuses unknown fields, values of other types, a field that is there twice, and text
// that is not one JSON value. A field that is absent or null keeps its default. A list or a mapping
// in the config replaces the whole default. A time.Duration is a string such as "10s", as in
// manifests. Other types are as for json.Unmarshal, with UnmarshalJSON and UnmarshalText, but
// without the tag's option string.
//
// If T has a method Validate() error, DecodeConfig calls it last, even if it has found mistakes.
// Begin each of its errors with the field, as in "retries[2].after: must be positive", and join
// them with errors.Join. DecodeConfig leaves out those that mention a field which it reports
// itself.
//
// A field that got another name can say so: the tag of
//
//	_ struct{} `instead:"url: write address"`
//
// answers whoever still writes url.
//
// The error lists everything that is wrong, one mistake a line, each with its place. informd finds
// the line of the manifest by it, so return it from Configure as it is. The list ends after 20
// mistakes. It quotes names, but no value, unless a method of T or of a field's type does. With an
// error, the result has the fields that could be decoded.
func DecodeConfig[T any](config json.RawMessage, defaults T) (T, error) {
	v := reflect.ValueOf(&defaults).Elem()
	if v.Kind() == reflect.Pointer {
		v = reallocate(v)
	}
	var d configDecoder
	if len(bytes.TrimSpace(config)) > 0 {
		d.decodeConfig(config, v)
	}
	if valid, ok := v.Addr().Interface().(interface{ Validate() error }); ok && !d.noConfig {
		d.addErrors(valid.Validate(), v.Type())
	}
	if beyond := len(d.mistakes) - maxMistakes; beyond > 0 {
		d.mistakes = append(d.mistakes[:maxMistakes], fmt.Errorf("and %d more mistakes", beyond))
	}
	return defaults, errors.Join(d.mistakes...)
}

// maxMistakes is how many mistakes in a config are listed; further ones are counted.
const maxMistakes = 20

// configDecoder collects the mistakes in a config.
type configDecoder struct {
	mistakes []error
	words    []string // of the mistakes, without the lists of known fields
	noConfig bool     // the config is no mapping, so no field was decoded
}

// place holds the names and indexes that lead to a value: retries, [2], after.
type place []string

func (p place) String() string {
	var b strings.Builder
	for i, element := range p {
		if i > 0 && !strings.HasPrefix(element, "[") {
			b.WriteByte('.')
		}
		b.WriteString(element)
	}
	return cmp.Or(b.String(), "config")
}

func (p place) member(name string) place { return append(slices.Clip(p), shortened(name)) }
func (p place) item(i int) place         { return append(slices.Clip(p), fmt.Sprintf("[%d]", i)) }

// shortened bounds a name from the config, so that the report stays bounded.
func shortened(name string) string {
	const most = 64
	if len(name) > most {
		return strings.ToValidUTF8(name[:most], "") + "…"
	}
	return name
}

var configWord = regexp.MustCompile(`[\w-]+`)

// fail adds a mistake. known follows its text.
func (d *configDecoder) fail(text, known string) {
	d.mistakes = append(d.mistakes, errors.New(text+known))
	d.words = append(d.words, configWord.FindAllString(text, -1)...)
}

func (d *configDecoder) failAt(at place, format string, args ...any) {
	d.fail(at.String()+": "+fmt.Sprintf(format, args...), "")
}

// addErrors adds errors of a config's Validate, but for those that mention a field of t which an
// earlier mistake mentions: they would often follow from it.
func (d *configDecoder) addErrors(err error, t reflect.Type) {
	var mistaken []string
	for name := range configFields(t) {
		if slices.Contains(d.words, name) {
			mistaken = append(mistaken, name)
		}
	}
	for _, e := range joined(err) {
		if !slices.ContainsFunc(configWord.FindAllString(e.Error(), -1), func(word string) bool {
			return slices.Contains(mistaken, word)
		}) {
			d.mistakes = append(d.mistakes, e)
		}
	}
}

// joined returns the errors that errors.Join has joined, also in several steps.
func joined(err error) (all []error) {
	if err == nil {
		return nil
	}
	parts, ok := err.(interface{ Unwrap() []error })
	if !ok || errors.Join(parts.Unwrap()...).Error() != err.Error() {
		return []error{err}
	}
	for _, part := range parts.Unwrap() {
		all = append(all, joined(part)...)
	}
	return all
}

// decodeConfig decodes the whole config into v.
func (d *configDecoder) decodeConfig(config json.RawMessage, v reflect.Value) {
	if err := json.Unmarshal(config, new(json.RawMessage)); err != nil {
		d.noConfig = true
		d.failAt(nil, "is not one JSON value: %v", err)
		return
	}
	tokens := json.NewDecoder(bytes.NewReader(config))
	tokens.UseNumber()
	d.findTwice(tokens, nil)
	mistakes := len(d.mistakes)
	d.decode(config, nil, v)
	d.noConfig = len(d.mistakes) > mistakes && kindOf(config) != "a mapping"
}

// findTwice reports the names that a mapping has twice, in the next value of tokens. The value is
// valid.
func (d *configDecoder) findTwice(tokens *json.Decoder, at place) {
	switch token, _ := tokens.Token(); token {
	case json.Delim('{'):
		times := make(map[string]int)
		for tokens.More() {
			token, _ := tokens.Token()
			name, _ := token.(string)
			member := at.member(name)
			if times[name]++; times[name] == 2 {
				d.failAt(member, "is there twice")
			}
			d.findTwice(tokens, member)
		}
	case json.Delim('['):
		for i := 0; tokens.More(); i++ {
			d.findTwice(tokens, at.item(i))
		}
	default:
		return
	}
	_, _ = tokens.Token() // the closing bracket
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	jsonType     = reflect.TypeFor[json.Unmarshaler]()
	textType     = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// decode decodes raw into v. Null leaves v as it is.
func (d *configDecoder) decode(raw json.RawMessage, at place, v reflect.Value) {
	t := v.Type()
	switch {
	case isNull(raw):
	case t.Kind() == reflect.Pointer:
		d.decode(raw, at, reallocate(v))
	case t == durationType:
		d.decodeDuration(raw, at, v)
	case reflect.PointerTo(t).Implements(jsonType):
		if err := json.Unmarshal(raw, v.Addr().Interface()); err != nil {
			d.failAt(at, "%v", err)
		}
	case reflect.PointerTo(t).Implements(textType):
		if text := new(string); d.decodeAs(raw, at, t, text) {
			err := v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(*text))
			if err != nil {
				d.failAt(at, "%v", err)
			}
		}
	case t.Kind() == reflect.Struct:
		d.decodeFields(raw, at, v)
	case t.Kind() == reflect.Map && t.Key().Kind() == reflect.String:
		d.decodeMap(raw, at, v)
	case t.Kind() == reflect.Array, t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		d.decodeList(raw, at, v)
	case wanted(t) == "":
		d.failAt(at, "the handler's field has the type %v, which no config can have", t)
	default:
		d.decodeAs(raw, at, t, v.Addr().Interface())
	}
}

// reallocate makes the pointer v point to a copy of its value, and returns the copy.
func reallocate(v reflect.Value) reflect.Value {
	p := reflect.New(v.Type().Elem())
	if !v.IsNil() {
		p.Elem().Set(v.Elem())
	}
	v.Set(p)
	return p.Elem()
}

func (d *configDecoder) decodeDuration(raw json.RawMessage, at place, v reflect.Value) {
	text := new(string)
	if !d.decodeAs(raw, at, durationType, text) {
		return
	}
	duration, err := time.ParseDuration(*text)
	if err != nil {
		d.failAt(at, `must be a duration such as "10s" or "1m30s"`)
	}
	v.SetInt(int64(duration))
}

func (d *configDecoder) decodeFields(raw json.RawMessage, at place, v reflect.Value) {
	var members map[string]json.RawMessage
	if !d.decodeAs(raw, at, v.Type(), &members) {
		return
	}
	fields := configFields(v.Type())
	for _, name := range slices.Sorted(maps.Keys(members)) {
		f, isKnown := fields[name]
		switch {
		case !isKnown:
			d.failUnknown(at, name, fields)
		case f.instead != "":
			d.fail(fmt.Sprintf("unknown field %q; %s", at.member(name).String(), f.instead), "")
		default:
			d.decode(members[name], at.member(name), v.FieldByIndex(f.index))
		}
	}
}

func (d *configDecoder) failUnknown(at place, name string, fields map[string]configField) {
	var known []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if fields[name].instead == "" {
			known = append(known, name)
		}
	}
	text := fmt.Sprintf("unknown field %q", shortened(name))
	if len(at) > 0 {
		text = fmt.Sprintf("%v: %s", at, text)
	}
	if near := nearest.Name(name, known); near != "" {
		text += fmt.Sprintf(", did you mean %q?", near)
	}
	d.fail(text, " (known: "+strings.Join(known, ", ")+")")
}

func (d *configDecoder) decodeMap(raw json.RawMessage, at place, v reflect.Value) {
	var members map[string]json.RawMessage
	if !d.decodeAs(raw, at, v.Type(), &members) {
		return
	}
	t := v.Type()
	v.Set(reflect.MakeMapWithSize(t, len(members)))
	for _, name := range slices.Sorted(maps.Keys(members)) {
		value := reflect.New(t.Elem()).Elem()
		d.decodeItem(members[name], at.member(name), value)
		v.SetMapIndex(reflect.ValueOf(name).Convert(t.Key()), value)
	}
}

func (d *configDecoder) decodeList(raw json.RawMessage, at place, v reflect.Value) {
	var items []json.RawMessage
	if !d.decodeAs(raw, at, v.Type(), &items) {
		return
	}
	if v.Kind() == reflect.Slice {
		v.Set(reflect.MakeSlice(v.Type(), len(items), len(items)))
	}
	if len(items) != v.Len() {
		d.failAt(at, "must have %d items, not %d", v.Len(), len(items))
		return
	}
	for i, item := range items {
		d.decodeItem(item, at.item(i), v.Index(i))
	}
}

// decodeItem decodes a value of a list or a mapping, where null does not leave a default.
func (d *configDecoder) decodeItem(raw json.RawMessage, at place, v reflect.Value) {
	t := v.Type()
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Map, reflect.Slice:
	default:
		if isNull(raw) && !reflect.PointerTo(t).Implements(jsonType) {
			d.failAt(at, "must be %s, not null", wanted(t))
			return
		}
	}
	d.decode(raw, at, v)
}

// decodeAs has json.Unmarshal decode raw into target. It reports whether that worked. If not, it
// fails with what a value of type t looks like.
func (d *configDecoder) decodeAs(raw json.RawMessage, at place, t reflect.Type, target any) bool {
	if json.Unmarshal(raw, target) == nil {
		return true
	}
	want, is := wanted(t), kindOf(raw)
	switch {
	case is == "a number" && want == "a whole number":
		if low, high, ok := bounds(t, raw); ok {
			d.failAt(at, "must be from %s to %s", low, high)
			return false
		}
		is += " with a point or an exponent"
	case is == "a number" && want == "a number":
		is = "one so large"
	case is == "a number" && want == "a string":
		is += " (put it in quotes)"
	case is == "a string" && want == "a string":
		want, is = "text in base64", "other text"
	}
	d.failAt(at, "must be %s, not %s", want, is)
	return false
}

// bounds returns the least and the greatest value of a type of whole numbers. ok says that number
// is a whole number, so that it must lie outside.
func bounds(t reflect.Type, number json.RawMessage) (low, high string, ok bool) {
	if bytes.ContainsAny(number, ".eE") {
		return "", "", false
	}
	bits := t.Bits()
	if t.Kind() >= reflect.Uint && t.Kind() <= reflect.Uintptr {
		return "0", strconv.FormatUint(1<<bits-1, 10), true
	}
	return strconv.FormatInt(-1<<(bits-1), 10), strconv.FormatInt(1<<(bits-1)-1, 10), true
}

// wanted returns what a value of a type looks like in a manifest, or "" if no value has the type.
func wanted(t reflect.Type) string {
	ofStrings := func() string {
		if t.Elem().Kind() == reflect.String {
			return " of strings"
		}
		return ""
	}
	switch {
	case t == durationType:
		return `a duration such as "10s"`
	case reflect.PointerTo(t).Implements(textType):
		return "a string"
	}
	switch k := t.Kind(); {
	case k == reflect.Bool:
		return "true or false"
	case k >= reflect.Int && k <= reflect.Uintptr:
		return "a whole number"
	case k == reflect.Float32, k == reflect.Float64:
		return "a number"
	case k == reflect.String, k == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return "a string"
	case k == reflect.Slice, k == reflect.Array:
		return "a list" + ofStrings()
	case k == reflect.Map && t.Key().Kind() == reflect.String:
		return "a mapping" + ofStrings()
	case k == reflect.Struct:
		return "a mapping"
	case k == reflect.Interface && t.NumMethod() == 0:
		return "a value"
	}
	return ""
}

func isNull(raw json.RawMessage) bool { return string(bytes.TrimSpace(raw)) == "null" }

// kindOf returns the name of the type of a valid JSON value.
func kindOf(raw json.RawMessage) string {
	switch bytes.TrimSpace(raw)[0] {
	case '{':
		return "a mapping"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// configField is a field of a struct that holds a config.
type configField struct {
	index   []int  // of the field, through embedded structs
	instead string // what to write instead of its name; empty for a field that has a value
}

// configFields returns the fields of a struct by their names, with those of embedded structs. Other
// types have none.
func configFields(t reflect.Type) map[string]configField {
	all := make(map[string]configField)
	if t.Kind() != reflect.Struct {
		return all
	}
	var embedded []reflect.StructField
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		former, hint, isInstead := strings.Cut(f.Tag.Get("instead"), ": ")
		switch {
		case isInstead:
			all[former] = configField{instead: hint}
		case f.Tag.Get("json") == "-":
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			embedded = append(embedded, f)
		case f.IsExported():
			all[cmp.Or(name, f.Name)] = configField{index: f.Index}
		}
	}
	for _, e := range embedded {
		for name, f := range configFields(e.Type) {
			if _, hidden := all[name]; !hidden {
				f.index = append(slices.Clone(e.Index), f.index...)
				all[name] = f
			}
		}
	}
	return all
}
