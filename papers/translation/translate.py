"""TOML claims -> Python claims (first version), one module a paper."""
def wrap(text,n): return textwrap.wrap(text,n,break_on_hyphens=False,break_long_words=False)
import glob, re, sys, tomllib, pprint, textwrap, subprocess
sys.path.insert(0,'.')
from exprs import parse
ROOT='./'
PREC={'or':1,'and':2,'not':3,'cmp':4,'+':5,'-':5,'*':6,'/':6,'neg':7,'post':9}
UNITS={'us':'us','ms':'ms','s':'s','min':'minutes','kbit':'kbit','mbit':'mbit','gbit':'gbit','B':'byte','kB':'kB','MB':'MB','pkts':'pkts'}
METHOD={'sum':'sum','mean':'mean','min':'min','max':'max','median':'median','sd':'deviation','count':'count','share':'share','jain':'jain','all':'all','any':'any'}
used=set()
def q(s): return '"'+s.replace('\\','\\\\').replace('"','\\"')+'"'
def code(e,own,prec=0):
    """Python of an expression; binds tighter than `prec`."""
    text,p=raw(e,own)
    return f'({text})' if p<prec else text
def raw(e,own):
    k=e[0]
    if k=='num':
        n,u=e[1],e[2]
        if u=='': return n,9
        if u=='%': return repr(round(float(n)/100,12)),9
        used.add(UNITS[u]); return f'{n} * {UNITS[u]}',6
    if k=='field':
        run=e[2] and ident(e[2]) or 'run'
        return f'{run}[{q(e[1])}]',9
    if k=='list':
        used.add('listed'); return 'listed('+', '.join(code(x,own) for x in e[1])+')',9
    if k=='neg': return '-'+code(e[1],own,7),7
    if k=='not': return '~'+code(e[1],own,8),7
    if k=='bin':
        op=e[1]
        if op in('and','or'):
            sym={'and':'&','or':'|'}[op]; lv={'and':3,'or':2}[op]
            return f'{code(e[2],own,lv)} {sym} {code(e[3],own,lv+1)}',lv
        if op in('<=','>=','<','>','=','!='):
            return f"{code(e[2],own,4.5)} {'==' if op=='=' else op} {code(e[3],own,4.5)}",1
        lv=PREC[op]
        return f'{code(e[2],own,lv)} {op} {code(e[3],own,lv+.5)}',lv
    if k=='sel':
        text=code(e[1],own,9); at={}; out=''
        parts=[]
        for axis,wanted,ex in e[2]:
            v=q(wanted[0]) if len(wanted)==1 else '['+', '.join(map(q,wanted))+']'
            parts.append((ex,axis,v))
        i=0
        while i<len(parts):
            ex=parts[i][0]; group=[]
            while i<len(parts) and parts[i][0]==ex:
                group.append(f'{parts[i][1]}={parts[i][2]}'); i+=1
            out+=('.without(' if ex else '.at(')+', '.join(group)+')'
        return text+out,9
    if k=='call':
        n,args,over=e[1],e[2],e[3]
        o=[q(x) for x in over]
        if n=='abs': return f'abs({code(args[0],own)})',9
        if n=='where': return f'{code(args[0],own,9)}.where({code(args[1],own)})',9
        if n=='p':
            assert args[0][0]=='num'
            return f"{code(args[1],own,9)}.percentile({', '.join([raw(args[0],own)[0]]+o)})",9
        if n in('spearman','overlap'):
            used.add(n); return f"{n}({', '.join([code(a,own) for a in args]+o)})",9
        return f"{code(args[0],own,9)}.{METHOD[n]}({', '.join(o)})",9
    raise Exception(e)
def ident(name):
    n=re.sub(r'\W','_',name)
    return n+'_' if n in('min','max','sum','c','run','all','any','abs','lambda','class','s','ms','long') or n in UNITS.values() else n
def lit(v): return pprint.pformat(v,width=100,sort_dicts=False) if not isinstance(v,str) else strlit(v)
def strlit(s):
    if '\n' in s and '"""' not in s and '\\' not in s: return '"""'+s+'"""'
    return q(s) if '\n' not in s else repr(s)
def module(paper):
    used.clear(); out=[]
    cs=[tomllib.load(open(p,'rb')) for p in glob.glob(f'{ROOT}/papers/{paper}/*.toml')]
    cs.sort(key=lambda c:(c.get('order',0),c['id']))
    for c in cs:
        name=c['id'].split('-',1)[1].replace('-','_')
        if name in('min','max','sum','all','any','abs'): name+='_'
        kw=[q(c['where']),q(c['kind']),q(c['mode']),f"expected={q(c['expected'])}"]
        for k in('expected_quick','stand_in','headline'):
            if k in c: kw.append(f'{k}={q(c[k])}')
        if c.get('needs_traces'): kw.append('needs_traces=True')
        if 'original' in c: kw.append(f"original={lit(c['original'])}")
        if 'tests' in c: kw.append(f"tests={tuple(c['tests']['names'])!r}")
        if c.get('because','').strip():
            because=' '.join(c['because'].split())
            kw.append('because="""'+'\n'.join(wrap(because,112)).replace('\\','\\\\')+'"""')
        body=['"""'+'\n    '.join(wrap(' '.join(c['says'].split()),112)).replace('\\','\\\\')+'"""']
        for n,t in c.get('train',{}).items():
            body.append(f"c.train({', '.join([q(n)]+[f'{k}={lit(v)}' for k,v in t.items()])})")
        refs={}
        named=set()
        exprs=[(k,parse(k['test'])) for k in c.get('check',[])]
        for ch in c.get('chart',[]): named.add(ch['run'])
        for k,e in exprs: named.add(k['run']); named|=runs_in(e)
        for n,r in c.get('run',{}).items():
            r=dict(r); args=[q(n)]
            for k in('setup','decides'):
                if k in r: args.append(f'{k}={lit(r.pop(k))}')
            if 'evidence' in r: args.append('evidence="""'+'\n'.join(wrap(' '.join(r.pop('evidence').split()),108))+'"""')
            args+= [f'{k}={lit(v)}' for k,v in r.items()]
            body.append((f'{ident(n)} = ' if n in named else '')+f"c.run({', '.join(args)})")
        for k,e in exprs:
            body.append(f"{ident(k['run'])}.{k['level']}({q(k['name'])}, lambda run: {code(e,k['run'])})")
        for ch in c.get('chart',[]):
            y=ch['y']; x=ch.get('x')
            args=[q(ch['kind']), q(y) if y in('transitions','zoom') else f'lambda run: {code(parse(y),ch["run"])}']
            if x is not None: args.append(f'x={q(x)}' if re.fullmatch(r'[a-z_]+',x) else f'x=lambda run: {code(parse(x),ch["run"])}')
            for k in('group','caption','log'):
                if k in ch: args.append(f'{k}={q(ch[k])}')
            if 'original' in ch:
                o={}
                for p in ch['original']: o.setdefault(p['group'],{})[p['x']]=p['y']
                args.append(f'original={lit(o)}')
            body.append(f"{ident(ch['run'])}.chart({', '.join(args)})")
        out.append(f"@claim({', '.join(kw)})\ndef {name}(c):\n    "+'\n    '.join(body)+'\n')
    titles={'verus':'Verus: adaptive congestion control for unpredictable cellular networks (SIGCOMM 2015).','mdi':'Model-driven delay-based congestion control (2017).','alcc':'ALCC: migrating congestion control to the application layer (2022).','highway':'Slides: TCP congestion control on the highway (2017).'}
    imports='from papers.claims import claim\n'+(f"from papers.figures import {', '.join(sorted(used))}\n" if used else '')
    open(f'{ROOT}/papers/{paper}.py','w').write(f'"""{titles[paper]}"""\n\n{imports}\n\n'+'\n\n'.join(out))
def runs_in(e):
    if isinstance(e,tuple) and e and e[0]=='field': return {e[2]} if e[2] else set()
    if isinstance(e,(tuple,list)): return set().union(*[runs_in(x) for x in e]) if e else set()
    return set()
if __name__=='__main__':
    for p in('verus','mdi','alcc','highway'): module(p)
