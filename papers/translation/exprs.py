"""The old expressions as tuples."""
import re
class P:
    def __init__(s,t): s.t=t; s.i=0
    def ws(s):
        while s.i<len(s.t) and s.t[s.i].isspace(): s.i+=1
    def take(s,x):
        s.ws()
        if s.t.startswith(x,s.i): s.i+=len(x); return True
        return False
    def peekword(s):
        s.ws(); m=re.compile(r'[\w.]+').match(s.t,s.i); return m.group() if m else ''
    def word(s,w):
        if s.peekword()==w: s.ws(); s.i+=len(w); return True
        return False
    def either(s):
        l=s.both()
        while s.word('or'): l=('bin','or',l,s.both())
        return l
    def both(s):
        l=s.neg_()
        while s.word('and'): l=('bin','and',l,s.neg_())
        return l
    def neg_(s):
        if s.word('not'): return ('not',s.neg_())
        l=s.sum()
        for o in('<=','>=','!=','<','>','='):
            if s.take(o): return ('bin',o,l,s.sum())
        return l
    def sum(s):
        l=s.prod()
        while True:
            if s.take('+'): l=('bin','+',l,s.prod())
            elif s.take('-'): l=('bin','-',l,s.prod())
            else: return l
    def prod(s):
        l=s.sign()
        while True:
            if s.take('*'): l=('bin','*',l,s.sign())
            elif s.take('/'): l=('bin','/',l,s.sign())
            else: return l
    def sign(s):
        if s.take('-'): return ('neg',s.sign())
        v=s.value()
        while s.take('['):
            e=s.t.index(']',s.i); inside=s.t[s.i:e]; s.i=e+1; sel=[]
            for part in inside.split(';'):
                a,w=part.split('=',1); ex=a.endswith('!'); a=a[:-1] if ex else a
                sel.append((a.strip(),tuple(x.strip() for x in w.split('|')),ex))
            v=('sel',v,tuple(sel))
        return v
    def value(s):
        if s.take('('):
            v=s.either(); assert s.take(')'),s.t[s.i:]; return v
        if s.take('['):
            v=[s.either()]
            while s.take(','): v.append(s.either())
            assert s.take(']'); return ('list',tuple(v))
        s.ws(); c=s.t[s.i]
        if c.isdigit():
            m=re.compile(r'[0-9A-Za-z.%]+').match(s.t,s.i); s.i=m.end()
            n=re.match(r'[0-9.]+',m.group()).group(); return ('num',n,m.group()[len(n):])
        w=s.peekword(); s.i+=len(w)
        if s.take('('):
            a=[s.either()]
            while s.take(','): a.append(s.either())
            over=[]
            if s.take(';'):
                while True:
                    o=s.peekword(); s.i+=len(o); over.append(o)
                    if not s.take(','): break
            assert s.take(')'),s.t[s.i:s.i+40]
            return ('call',w,tuple(a),tuple(over))
        run=None
        if s.take('@'): run=s.peekword(); s.i+=len(run)
        return ('field',w,run)
def parse(t):
    p=P(t); e=p.either(); p.ws(); assert p.i==len(t),(t,p.i); return e
