package config

import (
	"fmt"
	"path/filepath"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/informd/informd/plugins/handler/nearest"
)

// Bounds on the input.
const (
	maxFile            = 1 << 20 // bytes of one file
	maxDepth           = 64      // nested mappings and lists of one document
	maxMistakesPerFile = 1000    // beyond it, the rest of a file is not read
	// maxSuggestions bounds the suggestions in one Parse: a hostile file may have very many
	// mistakes.
	maxSuggestions = 200
)

// File is the content of one file. Relative commands in it are relative to the folder of Path.
type File struct {
	Path string
	Data []byte
}

// Parse reads the manifests in files. It reads a path that is given twice once. The Config is
// usable if there are no mistakes; otherwise it is as complete as possible, see [Config]. The
// mistakes are sorted.
func Parse(files []File) (*Config, Mistakes) {
	p := &parser{config: new(Config), metricsAt: map[string]Position{}, names: map[string]*names{
		kindSource: newNames(), kindHandler: newNames(), kindRule: newNames(), kindTest: newNames(),
	}}
	seen := map[string]bool{}
	var read []string
	for _, f := range files {
		if !seen[f.Path] {
			seen[f.Path] = true
			read = append(read, f.Path)
			p.parseFile(f)
		}
	}
	p.checkReferences()
	p.checkFormer()
	p.checkPayloads()
	p.nameKinds()
	if p.manifests == 0 && len(p.mistakes) == 0 {
		p.mistakes = append(p.mistakes, noManifest(read))
	}
	p.mistakes.Sort()
	return p.config, p.mistakes
}

func noManifest(paths []string) Mistake {
	switch n := len(paths); {
	case n == 0:
		return Mistake{Message: "no manifest: there is no file to read"}
	case n > 3:
		return Mistake{Message: fmt.Sprintf("no manifest in %s and %d more files",
			shown(strings.Join(paths[:3], ", ")), n-3)}
	default:
		return Mistake{Message: "no manifest in " + shown(strings.Join(paths, ", "))}
	}
}

// parser collects what the files say.
type parser struct {
	config      *Config
	mistakes    Mistakes
	suggestions int
	manifests   int
	names       map[string]*names   // by kind
	metricsAt   map[string]Position // by name
	mentions    []mention           // in Tests
	// words in documents that could not be read, which may declare names
	unread map[string]bool
}

// names are the names of one kind.
type names struct {
	at   map[string]Position // where each is first declared
	list []string            // in the order of declaration
}

func newNames() *names { return &names{at: map[string]Position{}} }

func (n *names) add(name string, at Position) {
	if _, ok := n.at[name]; !ok {
		n.at[name] = at
		n.list = append(n.list, name)
	}
}

// parseFile reads the documents of one file. A document that is not YAML does not hide the others.
func (p *parser) parseFile(in File) {
	text, bad := decode(in)
	if bad != nil {
		p.mistakes = append(p.mistakes, *bad)
		p.markUnread(text)
		return
	}
	p.parseText(newFile(in.Path, text))
}

// parseText reads the documents of a text.
func (p *parser) parseText(f *file) {
	text, limit := f.text, len(p.mistakes)+maxMistakesPerFile
	for _, part := range split(f) {
		p.parsePart(part, filepath.Dir(f.path), limit)
		if len(p.mistakes) >= limit {
			p.mistakes = append(p.mistakes, f.mistake(part.end,
				fmt.Sprintf("%d mistakes; the rest of the file has not been checked",
					maxMistakesPerFile)))
			p.markUnread(text[part.start:])
			return
		}
	}
}

func (p *parser) parsePart(part part, dir string, limit int) {
	root, bad := part.parse()
	if bad != nil {
		p.mistakes = append(p.mistakes, *bad)
		p.markUnread(part.text())
		return
	}
	if root == nil {
		return
	}
	p.manifests++
	r := &reader{parser: p, file: part.file, dir: dir, limit: limit, reported: map[*yaml.Node]bool{}}
	if r.definition(root) || r.configMap(root) {
		return
	}
	if !r.vet(root) {
		p.markUnread(part.text())
		return
	}
	r.manifest(root)
}

// markUnread records the words of text that could be names.
func (p *parser) markUnread(text string) {
	if p.unread == nil {
		p.unread = map[string]bool{}
	}
	separates := func(r rune) bool { return r > 'z' || !isNameByte(byte(r)) }
	for word := range strings.FieldsFuncSeq(text[:min(len(text), maxFile)], separates) {
		if len(word) <= maxName {
			p.unread[word] = true
		}
	}
}

// checkReferences reports names that rules and handlers refer to and nobody declares. It accepts a
// name that occurs in a document that could not be read: one mistake is not reported as two.
func (p *parser) checkReferences() {
	for i := range p.config.Rules {
		r := &p.config.Rules[i]
		p.checkReference(r.SourceAt, kindSource)
		p.checkReference(r.HandlerAt, kindHandler)
	}
	for _, h := range p.config.Handlers {
		for _, source := range h.Read {
			p.checkReference(source, kindSource)
		}
	}
	for _, m := range p.mentions {
		p.checkMention(m)
	}
}

// checkFormer reports former names that cannot be: each belongs to one rule, and no rule has it now.
func (p *parser) checkFormer() {
	successors := make(map[string]string)
	for i := range p.config.Rules {
		r := &p.config.Rules[i]
		name := r.Formerly
		if name == "" {
			continue
		}
		at, isThere := p.names[kindRule].at[name]
		message := ""
		switch {
		case name == r.Name:
			message = fmt.Sprintf("spec.formerly is the name that the rule has now: leave it out, "+
				"or name the one that it had before %s", quote(name))
		case isThere:
			message = fmt.Sprintf("spec.formerly: there is a rule %s (%s), and what that has is its own: "+
				"remove that rule, or formerly if it has done its work", quote(name), at)
		case successors[name] != "":
			message = fmt.Sprintf("spec.formerly: the rule %s was formerly %s too: what that had "+
				"belongs to one rule", quote(successors[name]), quote(name))
		}
		if message != "" {
			p.mistakes = append(p.mistakes, r.FormerlyAt.Mistake(0, message))
			continue
		}
		successors[name] = r.Name
	}
}

func (p *parser) checkReference(at Text, kind string) {
	name := at.String()
	declared := p.names[kind]
	if _, ok := declared.at[name]; ok || at.IsZero() || p.unread[name] {
		return
	}
	message := fmt.Sprintf("there is no %s named %s", kind, quote(name))
	if hint := p.suggest(name, declared.list); hint != "" {
		message += didYouMean(hint)
	}
	p.mistakes = append(p.mistakes, at.Mistake(0, message))
}

// suggest is nearest.Name, bounded by maxSuggestions.
func (p *parser) suggest(name string, candidates []string) string {
	if p.suggestions++; p.suggestions > maxSuggestions {
		return ""
	}
	return nearest.Name(name, candidates)
}

func didYouMean(s string) string { return fmt.Sprintf("; did you mean %s?", quote(s)) }
