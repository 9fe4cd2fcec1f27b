package object

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/klauspost/compress/s2"
)

// Packer compresses texts that resemble each other, as those of one resource's objects do: with a dictionary made of a
// sample of them. What is packed keeps the dictionary that it was packed with; later ones are better.
//
// A Packer holds on to a sample of 128 objects with up to 64 KiB each, and its dictionaries of up to 64 KiB each, of which
// never more than 16 are in use. It is safe for concurrent use.
type Packer struct {
	current atomic.Pointer[packing]

	mu     sync.Mutex // of the rest; never held while a text is packed
	sample sample
	due    int                        // a dictionary is made when so many objects have been shown to the sample
	made   []weak.Pointer[Dictionary] // all that may be in use
	usual  float64                    // share of the text that is left, as the current dictionary began; 0 before that is known
	latest struct{ texts, plain, packed int }
}

// packing is how texts are packed for the time being.
type packing struct {
	dictionary *Dictionary
	encoder    *s2.Dict // nil for the zero dictionary
}

const (
	firstDictionary = 32 // texts, which are packed without; the next ones are made after four times as many, each
	maxDictionaries = 16

	// Every 1024 texts their size is compared with that of the first 1024 that were packed with a dictionary. If a quarter
	// more is left of them, other objects have come: another sample is begun.
	compared     = 1024
	clearlyWorse = 1.25
)

// NewPacker makes a Packer that has seen nothing yet.
func NewPacker() *Packer {
	p := &Packer{sample: newSample(), due: firstDictionary}
	p.current.Store(&packing{dictionary: new(Dictionary)})
	return p
}

// Pack has o hold its text packed, unless that is not smaller. Others may read o meanwhile.
func (p *Packer) Pack(o *Object) {
	plain := o.content.Load()
	if plain.packed != nil {
		return
	}
	buf := buffers.Get().(*[]byte)
	defer giveBack(buf)
	with := p.current.Load()
	if with.encoder == nil {
		*buf = s2.Encode(*buf, plain.bytes)
	} else {
		*buf = with.encoder.Encode(*buf, plain.bytes)
	}
	if len(*buf) < len(plain.bytes) {
		o.content.CompareAndSwap(plain, &content{bytes: bytes.Clone(*buf), packed: with.dictionary})
	}
	p.learn(o, len(plain.bytes), len(*buf))
}

// learn takes note of a text and what became of it.
func (p *Packer) learn(o *Object, plain, packed int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if plain <= sampledText {
		p.sample.add(o, plain)
	}
	p.latest.texts++
	p.latest.plain += plain
	p.latest.packed += packed
	if p.latest.texts == compared {
		left := float64(p.latest.packed) / float64(p.latest.plain)
		p.latest.texts, p.latest.plain, p.latest.packed = 0, 0, 0
		if p.usual == 0 {
			p.usual = left
		} else if left > p.usual*clearlyWorse {
			p.sample, p.due, p.usual = newSample(), compared, left
		}
	}
	if p.sample.seen >= p.due {
		p.renew()
	}
}

// renew makes a dictionary.
func (p *Packer) renew() {
	p.made = slices.DeleteFunc(p.made, func(d weak.Pointer[Dictionary]) bool { return d.Value() == nil })
	text, beginning := p.sample.text()
	if len(p.made) == maxDictionaries || len(text) < s2.MinDictSize {
		p.due += compared
		return
	}
	p.due *= 4
	p.latest.texts, p.latest.plain, p.latest.packed, p.usual = 0, 0, 0, 0
	d, encoder := newDictionary(text, beginning)
	p.made = append(p.made, weak.Make(d))
	p.current.Store(&packing{d, encoder})
}
