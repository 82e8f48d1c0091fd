"""Is every Python claim the TOML claim? Runs, trainings, words, and the tree of every check and chart."""
import sys, types, glob, tomllib, re
cp=types.ModuleType('cellpace'); cp._native=types.SimpleNamespace(trace_set=lambda n:None); cp.CellpaceError=type('E',(ValueError,),{}); sys.modules['cellpace']=cp
sys.path[:0]=['./','.']
from exprs import parse
import papers.claims as C, papers.figures as F, importlib
class Sym:
    def __init__(s,t): s.t=t
    def at(s,**k): return s._sel(k,False)
    def without(s,**k): return s._sel(k,True)
    def _sel(s,k,ex):
        new=tuple((a,tuple(v) if isinstance(v,list) else (v,),ex) for a,v in k.items())
        return Sym(('sel',s.t[1],s.t[2]+new)) if s.t[0]=='sel' else Sym(('sel',s.t,new))
    def where(s,c): return Sym(('call','where',(s.t,tree(c)),()))
    def percentile(s,p,*o): return Sym(('call','p',(('n',float(p),''),s.t),o))
    def __neg__(s): return Sym(('neg',s.t))
    def __abs__(s): return Sym(('call','abs',(s.t,),()))
    def __invert__(s): return Sym(('not',s.t))
    __hash__=None
for m,n in dict(sum='sum',mean='mean',min='min',max='max',median='median',deviation='sd',count='count',share='share',jain='jain',all='all',any='any').items():
    setattr(Sym,m,lambda s,*o,n=n: Sym(('call',n,(s.t,),o)))
def tree(x): return x.t if isinstance(x,Sym) else ('n',float(x),'')
def quant(l,r,op):
    # 40 * ms is a number with a unit
    if op=='*' and l[0]=='n' and l[2]=='' and r[0]=='unit': return ('n',l[1],r[1])
    return ('bin',op,l,r)
for d,op in dict(add='+',sub='-',mul='*',truediv='/',le='<=',ge='>=',lt='<',gt='>',eq='=',ne='!=').items():
    setattr(Sym,f'__{d}__',lambda a,b,op=op: Sym(quant(tree(a),tree(b),op)))
for d,op in {'and':'and','or':'or'}.items(): setattr(Sym,f'__{d}__',lambda a,b,op=op: Sym(('bin',op,tree(a),tree(b))))
for d,op in dict(radd='+',rsub='-',rmul='*',rtruediv='/').items():
    setattr(Sym,f'__{d}__',lambda a,b,op=op: Sym(quant(tree(b),tree(a),op)))
units=dict(us='us',ms='ms',s='s',minutes='min',kbit='kbit',mbit='mbit',gbit='gbit',byte='B',kB='kB',MB='MB',pkts='pkts')
for py,u in units.items(): setattr(F,py,Sym(('unit',u)))
F.listed=lambda *v: Sym(('list',tuple(map(tree,v))))
for n in('spearman','overlap'): setattr(F,n,lambda a,b,*o,n=n: Sym(('call',n,(tree(a),tree(b)),o)))
def norm(e,own):
    if e[0]=='num': return ('n',round(float(e[1])/100,12),'') if e[2]=='%' else ('n',float(e[1]),e[2])
    if e[0]=='n': return e
    if e[0]=='neg':
        x=norm(e[1],own)
        return ('n',-x[1],x[2]) if x[0]=='n' else ('neg',x)
    if e[0]=='field': return ('field',e[1],e[2] or own)
    if e[0]=='sel':
        inner=norm(e[1],own); sel=tuple(map(tuple,e[2]))
        return ('sel',inner[1],inner[2]+sel) if inner[0]=='sel' else ('sel',inner,sel)
    return tuple(norm(x,own) if isinstance(x,tuple) and x and isinstance(x[0],str) and x[0] in KINDS else tuple(norm(y,own) for y in x) if isinstance(x,tuple) and x and isinstance(x[0],tuple) else x for x in e)
KINDS={'num','n','field','list','neg','not','bin','sel','call'}
C.Run.__getitem__=lambda self,name: Sym(('field',name,self.name))
def same(fn,run,text,what):
    got=norm(tree(fn(run)),run.name); want=norm(parse(text),run.name)
    if got!=want: bad.append(f'{what}\n  {got}\n  {want}')
bad=[]; counts=dict(claims=0,runs=0,checks=0,charts=0)
words=lambda t:' '.join((t or '').split())
for paper in C.PAPERS:
    ours=C.claims_of(importlib.import_module(f'papers.{paper}'),paper)
    toml=[tomllib.load(open(p,'rb')) for p in glob.glob(f'./papers/{paper}/*.toml')]
    toml.sort(key=lambda c:(c.get('order',0),c['id']))
    if [c.id for c in ours]!=[t['id'] for t in toml]: bad.append(f'{paper}: ids or order differ {set(c.id for c in ours)^set(t["id"] for t in toml)}')
    by={c.id:c for c in ours}
    for t in toml:
        c=by.get(t['id'])
        if c is None: continue
        counts['claims']+=1
        for a,b in dict(where='where',kind='kind',mode='mode',expected='expected',expected_quick='expected_quick',stand_in='stand_in',headline='headline').items():
            if getattr(c,a)!=t.get(b): bad.append(f'{c.id} {a}')
        for a,b in((c.says,t['says']),(c.because,t.get('because'))):
            if words(a)!=words(b): bad.append(f'{c.id} words\n {words(a)}\n {words(b)}')
        if c.original!=t.get('original',{}) or c.needs_traces!=t.get('needs_traces',False) or list(c.tests)!=t.get('tests',{}).get('names',[]): bad.append(f'{c.id} original/tests')
        if c.trainings!=t.get('train',{}): bad.append(f'{c.id} train')
        if set(c.runs)!=set(t.get('run',{})): bad.append(f'{c.id} runs')
        for n,r in t.get('run',{}).items():
            r=dict(r); counts['runs']+=1; o=c.runs[n]
            if (o.setup,words(o.evidence),o.decides)!=(r.pop('setup','printed'),words(r.pop('evidence','')),r.pop('decides',False)) or o.asked!=r: bad.append(f'{c.id} run {n}: {o.asked} {r}')
        if len(c.checks)!=len(t.get('check',[])) or len(c.charts)!=len(t.get('chart',[])): bad.append(f'{c.id} numbers of checks')
        for o,k in zip(c.checks,t.get('check',[])):
            counts['checks']+=1
            if (o.name,o.level,o.run.name)!=(k['name'],k['level'],k['run']): bad.append(f'{c.id} check {k["name"]}')
            same(o.test,o.run,k['test'],f'{c.id}: {k["name"]}')
        for o,k in zip(c.charts,t.get('chart',[])):
            counts['charts']+=1
            if (o.kind,o.run.name,o.group,o.caption,o.log)!=(k['kind'],k['run'],k.get('group'),k.get('caption',''),k.get('log','')): bad.append(f'{c.id} chart')
            flat=[(g,x,y) for g,p in o.original.items() for x,y in p.items()]
            if sorted(flat,key=str)!=sorted([(p['group'],p['x'],p['y']) for p in k.get('original',[])],key=str): bad.append(f'{c.id} chart original')
            if callable(o.y): same(o.y,o.run,k['y'],f'{c.id} chart y')
            elif o.y!=k['y']: bad.append(f'{c.id} chart y')
            if callable(o.x): same(o.x,o.run,k['x'],f'{c.id} chart x')
            elif o.x!=k.get('x'): bad.append(f'{c.id} chart x {o.x}')
print(counts, len(bad),'differences'); print('\n'.join(bad[:12]))
