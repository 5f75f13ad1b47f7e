'use strict'
const $chat_js = (() => {

function chatOf(json) {
let messages = null
try {
messages = JSON.parse(json)
} catch {}
const are = (ones) => Array.isArray(ones) && ones.length && ones.every((one) => typeof one?.content === 'string')
if (!are(messages)) return null
return { kind: 'text', text: messages.map(({ content }) => `${content}\n`).join(''), pair: '', messages }
}


function placed(tokens, messages) {
const begins = [0]
for (const { content } of messages) begins.push(begins.at(-1) + [...content].length + 1)
const moved = ({ span, message, ...token }) =>
({ ...token, message, span: span && span.map((place) => place + begins[message]) })
return Object.fromEntries(Object.entries(tokens).map(([axis, list]) =>
[axis, Array.isArray(list) ? list.map(moved) : list]))
}

return { chatOf, placed }
})()
const $preact_js = (() => {
var e,n,_,t,o,r,u,l={},i=[],c=/acit|ex(?:s|g|n|p|$)|rph|grid|ows|mnc|ntw|ine[ch]|zoo|^ord|itera/i;function s(e,n){for(var _ in n)e[_]=n[_];return e}function f(e){var n=e.parentNode;n&&n.removeChild(e)}function a(n,_,t){var o,r,u,l={};for(u in _)"key"==u?o=_[u]:"ref"==u?r=_[u]:l[u]=_[u];if(arguments.length>2&&(l.children=arguments.length>3?e.call(arguments,2):t),"function"==typeof n&&null!=n.defaultProps)for(u in n.defaultProps)void 0===l[u]&&(l[u]=n.defaultProps[u]);return p(n,l,o,r,null)}function p(e,t,o,r,u){var l={type:e,props:t,key:o,ref:r,__k:null,__:null,__b:0,__e:null,__d:void 0,__c:null,__h:null,constructor:void 0,__v:null==u?++_:u};return null!=n.vnode&&n.vnode(l),l}function h(e){return e.children}function d(e,n){this.props=e,this.context=n}function v(e,n){if(null==n)return e.__?v(e.__,e.__.__k.indexOf(e)+1):null;for(var _;n<e.__k.length;n++)if(null!=(_=e.__k[n])&&null!=_.__e)return _.__e;return"function"==typeof e.type?v(e):null}function y(e){var n,_;if(null!=(e=e.__)&&null!=e.__c){for(e.__e=e.__c.base=null,n=0;n<e.__k.length;n++)if(null!=(_=e.__k[n])&&null!=_.__e){e.__e=e.__c.base=_.__e;break}return y(e)}}function m(e){(!e.__d&&(e.__d=!0)&&t.push(e)&&!g.__r++||r!==n.debounceRendering)&&((r=n.debounceRendering)||o)(g)}function g(){for(var e;g.__r=t.length;)e=t.sort(function(e,n){return e.__v.__b-n.__v.__b}),t=[],e.some(function(e){var n,_,t,o,r,u;e.__d&&(r=(o=(n=e).__v).__e,(u=n.__P)&&(_=[],(t=s({},o)).__v=o.__v+1,P(u,o,t,n.__n,void 0!==u.ownerSVGElement,null!=o.__h?[r]:null,_,null==r?v(o):r,o.__h),D(_,o),o.__e!=r&&y(o)))})}function k(e,n,_,t,o,r,u,c,s,f){var a,d,y,m,g,k,x,H=t&&t.__k||i,E=H.length;for(_.__k=[],a=0;a<n.length;a++)if(null!=(m=_.__k[a]=null==(m=n[a])||"boolean"==typeof m?null:"string"==typeof m||"number"==typeof m||"bigint"==typeof m?p(null,m,null,null,m):Array.isArray(m)?p(h,{children:m},null,null,null):m.__b>0?p(m.type,m.props,m.key,null,m.__v):m)){if(m.__=_,m.__b=_.__b+1,null===(y=H[a])||y&&m.key==y.key&&m.type===y.type)H[a]=void 0;else for(d=0;d<E;d++){if((y=H[d])&&m.key==y.key&&m.type===y.type){H[d]=void 0;break}y=null}P(e,m,y=y||l,o,r,u,c,s,f),g=m.__e,(d=m.ref)&&y.ref!=d&&(x||(x=[]),y.ref&&x.push(y.ref,null,m),x.push(d,m.__c||g,m)),null!=g?(null==k&&(k=g),"function"==typeof m.type&&null!=m.__k&&m.__k===y.__k?m.__d=s=b(m,s,e):s=C(e,m,y,H,g,s),f||"option"!==_.type?"function"==typeof _.type&&(_.__d=s):e.value=""):s&&y.__e==s&&s.parentNode!=e&&(s=v(y))}for(_.__e=k,a=E;a--;)null!=H[a]&&("function"==typeof _.type&&null!=H[a].__e&&H[a].__e==_.__d&&(_.__d=v(t,a+1)),U(H[a],H[a]));if(x)for(a=0;a<x.length;a++)T(x[a],x[++a],x[++a])}function b(e,n,_){var t,o;for(t=0;t<e.__k.length;t++)(o=e.__k[t])&&(o.__=e,n="function"==typeof o.type?b(o,n,_):C(_,o,o,e.__k,o.__e,n));return n}function C(e,n,_,t,o,r){var u,l,i;if(void 0!==n.__d)u=n.__d,n.__d=void 0;else if(null==_||o!=r||null==o.parentNode)e:if(null==r||r.parentNode!==e)e.appendChild(o),u=null;else{for(l=r,i=0;(l=l.nextSibling)&&i<t.length;i+=2)if(l==o)break e;e.insertBefore(o,r),u=r}return void 0!==u?u:o.nextSibling}function x(e,n,_){"-"===n[0]?e.setProperty(n,_):e[n]=null==_?"":"number"!=typeof _||c.test(n)?_:_+"px"}function H(e,n,_,t,o){var r;e:if("style"===n)if("string"==typeof _)e.style.cssText=_;else{if("string"==typeof t&&(e.style.cssText=t=""),t)for(n in t)_&&n in _||x(e.style,n,"");if(_)for(n in _)t&&_[n]===t[n]||x(e.style,n,_[n])}else if("o"===n[0]&&"n"===n[1])r=n!==(n=n.replace(/Capture$/,"")),n=n.toLowerCase()in e?n.toLowerCase().slice(2):n.slice(2),e.l||(e.l={}),e.l[n+r]=_,_?t||e.addEventListener(n,r?S:E,r):e.removeEventListener(n,r?S:E,r);else if("dangerouslySetInnerHTML"!==n){if(o)n=n.replace(/xlink[H:h]/,"h").replace(/sName$/,"s");else if("href"!==n&&"list"!==n&&"form"!==n&&"tabIndex"!==n&&"download"!==n&&n in e)try{e[n]=null==_?"":_;break e}catch(e){}"function"==typeof _||(null!=_&&(!1!==_||"a"===n[0]&&"r"===n[1])?e.setAttribute(n,_):e.removeAttribute(n))}}function E(e){this.l[e.type+!1](n.event?n.event(e):e)}function S(e){this.l[e.type+!0](n.event?n.event(e):e)}function P(e,_,t,o,r,u,l,i,c){var f,a,p,v,y,m,g,b,C,x,H,E=_.type;if(void 0!==_.constructor)return null;null!=t.__h&&(c=t.__h,i=_.__e=t.__e,_.__h=null,u=[i]),(f=n.__b)&&f(_);try{e:if("function"==typeof E){if(b=_.props,C=(f=E.contextType)&&o[f.__c],x=f?C?C.props.value:f.__:o,t.__c?g=(a=_.__c=t.__c).__=a.__E:("prototype"in E&&E.prototype.render?_.__c=a=new E(b,x):(_.__c=a=new d(b,x),a.constructor=E,a.render=A),C&&C.sub(a),a.props=b,a.state||(a.state={}),a.context=x,a.__n=o,p=a.__d=!0,a.__h=[]),null==a.__s&&(a.__s=a.state),null!=E.getDerivedStateFromProps&&(a.__s==a.state&&(a.__s=s({},a.__s)),s(a.__s,E.getDerivedStateFromProps(b,a.__s))),v=a.props,y=a.state,p)null==E.getDerivedStateFromProps&&null!=a.componentWillMount&&a.componentWillMount(),null!=a.componentDidMount&&a.__h.push(a.componentDidMount);else{if(null==E.getDerivedStateFromProps&&b!==v&&null!=a.componentWillReceiveProps&&a.componentWillReceiveProps(b,x),!a.__e&&null!=a.shouldComponentUpdate&&!1===a.shouldComponentUpdate(b,a.__s,x)||_.__v===t.__v){a.props=b,a.state=a.__s,_.__v!==t.__v&&(a.__d=!1),a.__v=_,_.__e=t.__e,_.__k=t.__k,_.__k.forEach(function(e){e&&(e.__=_)}),a.__h.length&&l.push(a);break e}null!=a.componentWillUpdate&&a.componentWillUpdate(b,a.__s,x),null!=a.componentDidUpdate&&a.__h.push(function(){a.componentDidUpdate(v,y,m)})}a.context=x,a.props=b,a.state=a.__s,(f=n.__r)&&f(_),a.__d=!1,a.__v=_,a.__P=e,f=a.render(a.props,a.state,a.context),a.state=a.__s,null!=a.getChildContext&&(o=s(s({},o),a.getChildContext())),p||null==a.getSnapshotBeforeUpdate||(m=a.getSnapshotBeforeUpdate(v,y)),H=null!=f&&f.type===h&&null==f.key?f.props.children:f,k(e,Array.isArray(H)?H:[H],_,t,o,r,u,l,i,c),a.base=_.__e,_.__h=null,a.__h.length&&l.push(a),g&&(a.__E=a.__=null),a.__e=!1}else null==u&&_.__v===t.__v?(_.__k=t.__k,_.__e=t.__e):_.__e=w(t.__e,_,t,o,r,u,l,c);(f=n.diffed)&&f(_)}catch(e){_.__v=null,(c||null!=u)&&(_.__e=i,_.__h=!!c,u[u.indexOf(i)]=null),n.__e(e,_,t)}}function D(e,_){n.__c&&n.__c(_,e),e.some(function(_){try{e=_.__h,_.__h=[],e.some(function(e){e.call(_)})}catch(e){n.__e(e,_.__v)}})}function w(n,_,t,o,r,u,i,c){var s,a,p,h=t.props,d=_.props,y=_.type,m=0;if("svg"===y&&(r=!0),null!=u)for(;m<u.length;m++)if((s=u[m])&&(s===n||(y?s.localName==y:3==s.nodeType))){n=s,u[m]=null;break}if(null==n){if(null===y)return document.createTextNode(d);n=r?document.createElementNS("http://www.w3.org/2000/svg",y):document.createElement(y,d.is&&d),u=null,c=!1}if(null===y)h===d||c&&n.data===d||(n.data=d);else{if(u=u&&e.call(n.childNodes),a=(h=t.props||l).dangerouslySetInnerHTML,p=d.dangerouslySetInnerHTML,!c){if(null!=u)for(h={},m=0;m<n.attributes.length;m++)h[n.attributes[m].name]=n.attributes[m].value;(p||a)&&(p&&(a&&p.__html==a.__html||p.__html===n.innerHTML)||(n.innerHTML=p&&p.__html||""))}if(function(e,n,_,t,o){var r;for(r in _)"children"===r||"key"===r||r in n||H(e,r,null,_[r],t);for(r in n)o&&"function"!=typeof n[r]||"children"===r||"key"===r||"value"===r||"checked"===r||_[r]===n[r]||H(e,r,n[r],_[r],t)}(n,d,h,r,c),p)_.__k=[];else if(m=_.props.children,k(n,Array.isArray(m)?m:[m],_,t,o,r&&"foreignObject"!==y,u,i,u?u[0]:t.__k&&v(t,0),c),null!=u)for(m=u.length;m--;)null!=u[m]&&f(u[m]);c||("value"in d&&void 0!==(m=d.value)&&(m!==n.value||"progress"===y&&!m)&&H(n,"value",m,h.value,!1),"checked"in d&&void 0!==(m=d.checked)&&m!==n.checked&&H(n,"checked",m,h.checked,!1))}return n}function T(e,_,t){try{"function"==typeof e?e(_):e.current=_}catch(e){n.__e(e,t)}}function U(e,_,t){var o,r;if(n.unmount&&n.unmount(e),(o=e.ref)&&(o.current&&o.current!==e.__e||T(o,null,_)),null!=(o=e.__c)){if(o.componentWillUnmount)try{o.componentWillUnmount()}catch(e){n.__e(e,_)}o.base=o.__P=null}if(o=e.__k)for(r=0;r<o.length;r++)o[r]&&U(o[r],_,"function"!=typeof e.type);t||null==e.__e||f(e.__e),e.__e=e.__d=void 0}function A(e,n,_){return this.constructor(e,_)}function M(_,t,o){var r,u,i;n.__&&n.__(_,t),u=(r="function"==typeof o)?null:o&&o.__k||t.__k,i=[],P(t,_=(!r&&o||t).__k=a(h,null,[_]),u||l,l,void 0!==t.ownerSVGElement,!r&&o?[o]:u?null:t.firstChild?e.call(t.childNodes):null,i,!r&&o?o:u?u.__e:t.firstChild,r),D(i,_)}function F(e,n){var _={__c:n="__cC"+u++,__:e,Consumer:function(e,n){return e.children(n)},Provider:function(e){var _,t;return this.getChildContext||(_=[],(t={})[n]=this,this.getChildContext=function(){return t},this.shouldComponentUpdate=function(e){this.props.value!==e.value&&_.some(m)},this.sub=function(e){_.push(e);var n=e.componentWillUnmount;e.componentWillUnmount=function(){_.splice(_.indexOf(e),1),n&&n.call(e)}}),e.children}};return _.Provider.__=_.Consumer.contextType=_}e=i.slice,n={__e:function(e,n){for(var _,t,o;n=n.__;)if((_=n.__c)&&!_.__)try{if((t=_.constructor)&&null!=t.getDerivedStateFromError&&(_.setState(t.getDerivedStateFromError(e)),o=_.__d),null!=_.componentDidCatch&&(_.componentDidCatch(e),o=_.__d),o)return _.__E=_}catch(n){e=n}throw e}},_=0,d.prototype.setState=function(e,n){var _;_=null!=this.__s&&this.__s!==this.state?this.__s:this.__s=s({},this.state),"function"==typeof e&&(e=e(s({},_),this.props)),e&&s(_,e),null!=e&&this.__v&&(n&&this.__h.push(n),m(this))},d.prototype.forceUpdate=function(e){this.__v&&(this.__e=!0,e&&this.__h.push(e),m(this))},d.prototype.render=h,t=[],o="function"==typeof Promise?Promise.prototype.then.bind(Promise.resolve()):setTimeout,g.__r=0,u=0;var L,N,W,R=0,I=[],O=n.__b,V=n.__r,q=n.diffed,B=n.__c,$=n.unmount;function j(e,_){n.__h&&n.__h(N,e,R||_),R=0;var t=N.__H||(N.__H={__:[],__h:[]});return e>=t.__.length&&t.__.push({}),t.__[e]}function G(e){return R=1,z(ie,e)}function z(e,n,_){var t=j(L++,2);return t.t=e,t.__c||(t.__=[_?_(n):ie(void 0,n),function(e){var n=t.t(t.__[0],e);t.__[0]!==n&&(t.__=[n,t.__[1]],t.__c.setState({}))}],t.__c=N),t.__}function J(e,_){var t=j(L++,3);!n.__s&&le(t.__H,_)&&(t.__=e,t.__H=_,N.__H.__h.push(t))}function K(e,_){var t=j(L++,4);!n.__s&&le(t.__H,_)&&(t.__=e,t.__H=_,N.__h.push(t))}function Q(e){return R=5,Y(function(){return{current:e}},[])}function X(e,n,_){R=6,K(function(){"function"==typeof e?e(n()):e&&(e.current=n())},null==_?_:_.concat(e))}function Y(e,n){var _=j(L++,7);return le(_.__H,n)&&(_.__=e(),_.__H=n,_.__h=e),_.__}function Z(e,n){return R=8,Y(function(){return e},n)}function ee(e){var n=N.context[e.__c],_=j(L++,9);return _.c=e,n?(null==_.__&&(_.__=!0,n.sub(N)),n.props.value):e.__}function ne(e,_){n.useDebugValue&&n.useDebugValue(_?_(e):e)}function _e(e){var n=j(L++,10),_=G();return n.__=e,N.componentDidCatch||(N.componentDidCatch=function(e){n.__&&n.__(e),_[1](e)}),[_[0],function(){_[1](void 0)}]}function te(){I.forEach(function(e){if(e.__P)try{e.__H.__h.forEach(re),e.__H.__h.forEach(ue),e.__H.__h=[]}catch(_){e.__H.__h=[],n.__e(_,e.__v)}}),I=[]}n.__b=function(e){N=null,O&&O(e)},n.__r=function(e){V&&V(e),L=0;var n=(N=e.__c).__H;n&&(n.__h.forEach(re),n.__h.forEach(ue),n.__h=[])},n.diffed=function(e){q&&q(e);var _=e.__c;_&&_.__H&&_.__H.__h.length&&(1!==I.push(_)&&W===n.requestAnimationFrame||((W=n.requestAnimationFrame)||function(e){var n,_=function(){clearTimeout(t),oe&&cancelAnimationFrame(n),setTimeout(e)},t=setTimeout(_,100);oe&&(n=requestAnimationFrame(_))})(te)),N=void 0},n.__c=function(e,_){_.some(function(e){try{e.__h.forEach(re),e.__h=e.__h.filter(function(e){return!e.__||ue(e)})}catch(t){_.some(function(e){e.__h&&(e.__h=[])}),_=[],n.__e(t,e.__v)}}),B&&B(e,_)},n.unmount=function(e){$&&$(e);var _=e.__c;if(_&&_.__H)try{_.__H.__.forEach(re)}catch(e){n.__e(e,_.__v)}};var oe="function"==typeof requestAnimationFrame;function re(e){var n=N;"function"==typeof e.__c&&e.__c(),N=n}function ue(e){var n=N;e.__c=e.__(),N=n}function le(e,n){return!e||e.length!==n.length||n.some(function(n,_){return n!==e[_]})}function ie(e,n){return"function"==typeof n?n(e):n}var ce=function(e,n,_,t){var o;n[0]=0;for(var r=1;r<n.length;r++){var u=n[r++],l=n[r]?(n[0]|=u?1:2,_[n[r++]]):n[++r];3===u?t[0]=l:4===u?t[1]=Object.assign(t[1]||{},l):5===u?(t[1]=t[1]||{})[n[++r]]=l:6===u?t[1][n[++r]]+=l+"":u?(o=e.apply(l,ce(e,l,_,["",null])),t.push(o),l[0]?n[0]|=2:(n[r-2]=0,n[r]=o)):t.push(l)}return t},se=new Map,fe=function(e){var n=se.get(this);return n||(n=new Map,se.set(this,n)),(n=ce(this,n.get(e)||(n.set(e,n=function(e){for(var n,_,t=1,o="",r="",u=[0],l=function(e){1===t&&(e||(o=o.replace(/^\s*\n\s*|\s*\n\s*$/g,"")))?u.push(0,e,o):3===t&&(e||o)?(u.push(3,e,o),t=2):2===t&&"..."===o&&e?u.push(4,e,0):2===t&&o&&!e?u.push(5,0,!0,o):t>=5&&((o||!e&&5===t)&&(u.push(t,0,o,_),t=6),e&&(u.push(t,e,0,_),t=6)),o=""},i=0;i<e.length;i++){i&&(1===t&&l(),l(i));for(var c=0;c<e[i].length;c++)n=e[i][c],1===t?"<"===n?(l(),u=[u],t=3):o+=n:4===t?"--"===o&&">"===n?(t=1,o=""):o=n+o[0]:r?n===r?r="":o+=n:'"'===n||"'"===n?r=n:">"===n?(l(),t=1):t&&("="===n?(t=5,_=o,o=""):"/"===n&&(t<5||">"===e[i][c+1])?(l(),3===t&&(u=u[0]),t=u,(u=u[0]).push(2,0,t),t=0):" "===n||"\t"===n||"\n"===n||"\r"===n?(l(),t=2):o+=n),3===t&&"!--"===o&&(t=4,u=u[0])}return l(),u}(e)),n),arguments,[])).length>1?n:n[0]}.bind(a);
return { h: a, html: fe, render: M, Component: d, createContext: F, useState: G, useReducer: z, useEffect: J, useLayoutEffect: K, useRef: Q, useImperativeHandle: X, useMemo: Y, useCallback: Z, useContext: ee, useDebugValue: ne, useErrorBoundary: _e }
})()
const $values_js = (() => {

const short = (number) => String(Number(Number(number).toPrecision(3)))


const figure = (value, share) => (share ? `${short(100 * value)} %` : short(value))


function percent(share, digits = 1) {
const rounded = (100 * share).toFixed(digits)
return share > 0 && Number(rounded) === 0 ? `<${10 ** -digits}%` : `${rounded}%`
}


const DECADES = 4


const logarithmic = (share) => (share > 0 ? Math.max(1 + Math.log10(share) / DECADES, 0) : 0)


const placeOf = (cell, columns) => `row ${Math.floor(cell / columns)}, column ${cell % columns}`


function extremesOf(values, columns, signed, share) {
const order = [...values.keys()].sort((one, other) => values[other] - values[one])
const named = (cell) => `${placeOf(cell, columns)} (${figure(values[cell], share)})`
const [hot, cold] = signed ? ['Most for it', 'most against it'] : ['Hottest', 'coldest']
return `${hot}: ${order.slice(0, 2).map(named).join(', ')}; ${cold}: ${named(order.at(-1))}.`
}


const middleOf = ({ rows, columns }) => Math.floor(rows / 2) * columns + Math.floor(columns / 2)


const lengthOf = (share) => `${(100 * share).toFixed(4)}%`


function written(value, names) {
const one = (part) => written(part, names)
if (Array.isArray(value)) return `[${value.map(one).join(', ')}]`
if (value && typeof value === 'object') {
return `{${Object.entries(value).map((entry) => entry.map(one).join(': ')).join(', ')}}`
}
return names?.get(value) ?? JSON.stringify(value)
}


function rowOrMean(values, columns, row) {
if (row !== null) return values.subarray(row * columns, (row + 1) * columns)
const count = values.length / columns
return Float32Array.from(range(columns), (at) =>
range(count).reduce((sum, one) => sum + values[one * columns + at], 0) / count)
}


const range = (count) => [...Array(count).keys()]


const linesOf = (text) => text.split('\n').map((line) => line.trim()).filter(Boolean)


const clamp = (value, low, high) => Math.min(Math.max(value, low), high)


const labelOf = ({ text }) => text.replaceAll(' ', '␣').replaceAll('\n', '⏎').replaceAll('\t', '⇥') || '·'

const LEFTWARD = /[\u0591-\u08ff\ufb1d-\ufdfd\ufe70-\ufefc]/ // Hebrew, Arabic, Syriac, Thaana, N'Ko and their like


function directionOf(tokens) {
const first = tokens.find(({ text, special }) => !special && /\p{L}/u.test(text))
return first && LEFTWARD.test(first.text) ? 'rtl' : 'ltr'
}





function unpackMap(map, method) {
const [heads, queries, keys] = map.shape
const values = typeof map.values === 'string' ? decoded(map) : Float32Array.from(map.values.flat(2))
const negative = !['max', 'min'].includes(map.heads) || values.some((value) => value < 0)
const mixed = method === 'similar' || (method === 'raw' && !map.normalized)
const signed = map.signed ?? (mixed && negative)
return { ...map, values, heads, queries, keys, signed, size: map.pool ?? { queries, keys } }
}

function decoded({ values, dtype, scale, zero = 0 }) {
const bytes = Uint8Array.fromBase64?.(values) ?? Uint8Array.from(atob(values), (one) => one.charCodeAt(0))
if (dtype !== 'uint8') return new Float32Array(bytes.buffer)
return Float32Array.from(bytes, (byte) => (byte - zero) * Math.abs(byte - zero) * scale)
}


function headOf({ values, queries, keys }, head) {
return values.subarray(head * queries * keys, (head + 1) * queries * keys)
}


function rowOf(map, head, query) {
return headOf(map, head).subarray(query * map.keys, (query + 1) * map.keys)
}


function fuse(map, how) {
const fused = Float32Array.from(headOf(map, 0))
for (let head = 1; head < map.heads; head++) {
const own = headOf(map, head)
if (how === 'mean') for (let at = 0; at < own.length; at++) fused[at] += own[at]
else for (let at = 0; at < own.length; at++) fused[at] = Math[how](fused[at], own[at])
}
return how === 'mean' ? fused.map((sum) => sum / map.heads) : fused
}


function largest(values, signed) {
let most = 0
for (let at = 0; at < values.length; at++) {
const size = signed ? Math.abs(values[at]) : values[at]
if (size > most && size < Infinity) most = size
}
return most || 1
}

const RANK = 0.98
const MOST_ABOVE = 0.5






function endOf(values, signed) {
const sizes = Float64Array.from(values, (value) => (signed ? Math.abs(value) : value))
.filter((size) => size > 0 && size < Infinity).sort()
if (!sizes.length) return 1
const sum = sizes.reduce((total, size) => total + size, 0)
let [at, below] = [0, sizes[0]]
while (sum - below > MOST_ABOVE * sum) below += sizes[++at]
return sizes[Math.max(Math.ceil(RANK * sizes.length) - 1, at)]
}


const aboveOf = (values, signed, top) => ({
above: values.filter((value) => (signed ? Math.abs(value) : value) > top).length, most: largest(values, signed),
})


function scaleOf(values, signed, full) {
const top = full ? largest(values, signed) : endOf(values, signed)
return { top, ...aboveOf(values, signed, top) }
}


function keepMass(values, share) {
const sizes = Float32Array.from(values, Math.abs).sort().reverse()
const wanted = share * sizes.reduce((sum, size) => sum + size, 0) * (1 - 1e-6)
let kept = 0
for (let sum = 0; kept < sizes.length && sum < wanted; kept++) sum += sizes[kept]
if (!kept) return new Float32Array(values.length)
const least = sizes[kept - 1]
let equal = kept - sizes.indexOf(least)
return Float32Array.from(values, (value) => {
const size = Math.abs(value)
return size > least || (size === least && equal-- > 0) ? value : 0
})
}

const dot = (one, other) => one.reduce((sum, value, at) => sum + value * other[at], 0)


const normOf = (vector) => Math.sqrt(dot(vector, vector))


const cosine = (one, other) => dot(one, other) / (normOf(one) * normOf(other))


const difference = (one, other) => Float32Array.from(one, (value, at) => value - other[at])





function without(values, queries, keys, hiddenQueries, hiddenKeys, normalized) {
const left = (count, hidden) => range(count).filter((at) => !hidden.has(at))
const [rows, columns] = [left(queries, hiddenQueries), left(keys, hiddenKeys)]
const kept = new Float32Array(rows.length * columns.length)
rows.forEach((query, row) => {
const start = row * columns.length
columns.forEach((key, column) => (kept[start + column] = values[query * keys + key]))
if (!normalized) return
const line = kept.subarray(start, start + columns.length)
const sum = line.reduce((total, value) => total + value, 0)
if (sum) line.set(line.map((value) => value / sum))
})
return { values: kept, queries: rows, keys: columns }
}


function entropy(values, queries, keys) {
let total = 0
for (let query = 0; query < queries; query++) {
let [sum, weighted] = [0, 0]
for (let at = query * keys; at < (query + 1) * keys; at++) {
const size = Math.abs(values[at])
sum += size
if (size) weighted += size * Math.log(size)
}
if (sum) total += Math.log(sum) - weighted / sum
}
return total / (queries || 1)
}

return { short, figure, percent, DECADES, logarithmic, placeOf, extremesOf, middleOf, lengthOf, written, rowOrMean, range, linesOf, clamp, labelOf, directionOf, unpackMap, headOf, rowOf, fuse, largest, endOf, aboveOf, scaleOf, keepMass, normOf, cosine, difference, without, entropy }
})()
const $words_js = (() => {

const TOUCH = matchMedia('(hover: none)').matches


const NOTHING = {
ready: 'Ask something.',
'warming up': 'The model is warming up.',
failed: 'The model’s runs fail: the service’s log says why. It is tried again every few seconds.',
}


const METHODS = {
raw: 'How much of each token’s value was mixed in: the attention weights of one layer.',
rollout: 'The weights followed through the layers (Abnar & Zuidema 2020).',
norm: 'How long the vectors are that were mixed in (Kobayashi et al. 2020). Sizes, not shares.',
relevance:
'The weights times their gradients: what spoke for one class or token (Chefer et al. 2021). No shares either.',
libra: 'Each token’s share of a score, for (red) or against (blue) it, by balanced gradients (Mehri et al. 2025).',
integrated: 'Each token’s share of a score, along a path from an empty input (Sundararajan et al. 2017).',
similar: 'How like each part is to the one that is pointed at: the cosine of their states, less the mean of all.',
parts: 'What the parts are: the three principal components of their states, as colours (Oquab et al. 2023).',
saliency: 'What stands out in light, colour and orientation, whatever the model makes of it (Itti et al. 1998).',
}


const STATES = ['similar', 'parts']


const PICTURE = 'saliency'


const EXPLAINS = ['relevance', 'libra', 'integrated']


const RATHER = ['libra', 'integrated']

const KINDS = {
cross: { name: 'answer → input', rows: 'From the answer (rows) to the text (columns)' },
decoder: { name: 'answer → itself', rows: 'From the answer (rows) to all that was before (columns)' },
encoder: { name: 'input → itself', rows: 'From the text (rows) to itself (columns)' },
}
const OBJECTS = {
cross: { name: 'objects → input', rows: 'From the objects (rows) to the image (columns)' },
decoder: { name: 'objects → themselves', rows: 'From objects (rows) to all that are looked for (columns)' },
}

const SOUNDS = {
cross: { name: KINDS.cross.name, rows: 'From the answer (rows) to the sound (columns)' },
encoder: { name: KINDS.encoder.name, rows: 'From the sound (rows) to itself (columns)' },
}

const GRAPHS = {
encoder: { name: KINDS.encoder.name, rows: 'From the nodes (rows) to the nodes (columns)' },
}
const OF_INPUT = { frame: SOUNDS, node: GRAPHS }


const SORTS = Object.keys(KINDS)


function wordsOf({ name, kind: sort = name, query, key }) {
const words = (query === 'object' && OBJECTS[sort]) || OF_INPUT[key]?.[sort] || KINDS[sort]
if (!words) return { name, rows: 'From what is asked about (rows) to what is looked at (columns)' }
return sort === name ? words : { ...words, name: `${words.name}, ${name}` }
}


const ORDERS = {
index: 'layer × head',
entropy: 'entropy, the most focused first',
distance: 'distance, the most local first',
sink: 'share of one patch, the least first',
special: 'share on special tokens',
}


const FIGURES = {
entropy: 'entropy', distance: 'distance', special: 'on special tokens', sink: 'most on one patch',
}


const TERMS = {
kind: 'The answer may look at the input, or each part of the input at the other parts.',
method: 'How it is computed from the model what it looked at.',
layer: 'A model is a stack of layers: each looks anew, at what the one before made of the input.',
heads: 'A layer looks several times at once; each time is a head, and may look for something else.',
mean: 'All heads added up, each counts alike.',
max: 'Of each value that of the head that has the largest.',
min: 'Of each value that of the head that has the smallest.',
target: 'Which answer the heat speaks for.',
align: 'A written token has two rows: that of the token before, which chose it, and its own.',
measure: 'Taking away what is hottest shows whether the answer rests on it.',
fed: 'What is left of the input after scaling, cutting and splitting: the numbers that the model computes with.',
inside: 'How a head computes one weight: query times key, softmax, and what it takes of the value.',
order: 'Heads of low entropy look at one place, those of high entropy everywhere.',
}

return { TOUCH, NOTHING, METHODS, STATES, PICTURE, EXPLAINS, RATHER, SORTS, wordsOf, ORDERS, FIGURES, TERMS }
})()
const $tables_js = (() => {



const COLORMAPS = {
viridis:
'44015444025645045745055946075a46085c460a5d460b5e470d60470e6147106347116447136548146748166848176948186a481a6c' +
'481b6d481c6e481d6f481f70482071482173482374482475482576482677482878482979472a7a472c7a472d7b472e7c472f7d46307e' +
'46327e46337f463480453581453781453882443983443a83443b84433d84433e85423f85424086424186414287414487404588404688' +
'3f47883f48893e49893e4a893e4c8a3d4d8a3d4e8a3c4f8a3c508b3b518b3b528b3a538b3a548c39558c39568c38588c38598c375a8c' +
'375b8d365c8d365d8d355e8d355f8d34608d34618d33628d33638d32648e32658e31668e31678e31688e30698e306a8e2f6b8e2f6c8e' +
'2e6d8e2e6e8e2e6f8e2d708e2d718e2c718e2c728e2c738e2b748e2b758e2a768e2a778e2a788e29798e297a8e297b8e287c8e287d8e' +
'277e8e277f8e27808e26818e26828e26828e25838e25848e25858e24868e24878e23888e23898e238a8d228b8d228c8d228d8d218e8d' +
'218f8d21908d21918c20928c20928c20938c1f948c1f958b1f968b1f978b1f988b1f998a1f9a8a1e9b8a1e9c891e9d891f9e891f9f88' +
'1fa0881fa1881fa1871fa28720a38620a48621a58521a68522a78522a88423a98324aa8325ab8225ac8226ad8127ad8128ae8029af7f' +
'2ab07f2cb17e2db27d2eb37c2fb47c31b57b32b67a34b67935b77937b87838b9773aba763bbb753dbc743fbc7340bd7242be7144bf70' +
'46c06f48c16e4ac16d4cc26c4ec36b50c46a52c56954c56856c66758c7655ac8645cc8635ec96260ca6063cb5f65cb5e67cc5c69cd5b' +
'6ccd5a6ece5870cf5773d05675d05477d1537ad1517cd2507fd34e81d34d84d44b86d54989d5488bd6468ed64590d74393d74195d840' +
'98d83e9bd93c9dd93ba0da39a2da37a5db36a8db34aadc32addc30b0dd2fb2dd2db5de2bb8de29bade28bddf26c0df25c2df23c5e021' +
'c8e020cae11fcde11dd0e11cd2e21bd5e21ad8e219dae319dde318dfe318e2e418e5e419e7e419eae51aece51befe51cf1e51df4e61e' +
'f6e620f8e621fbe723fde725',
magma:
'00000401000501010601010802010902020b02020d03030f03031204041405041606051806051a07061c08071e0907200a08220b0924' +
'0c09260d0a290e0b2b100b2d110c2f120d31130d34140e36150e38160f3b180f3d19103f1a10421c10441d11471e114920114b21114e' +
'22115024125325125527125829115a2a115c2c115f2d11612f116331116533106734106936106b38106c390f6e3b0f703d0f713f0f72' +
'400f74420f75440f764510774710784910784a10794c117a4e117b4f127b51127c52137c54137d56147d57157e59157e5a167e5c167f' +
'5d177f5f187f601880621980641a80651a80671b80681c816a1c816b1d816d1d816e1e81701f81721f81732081752181762181782281' +
'7922827b23827c23827e24828025828125818326818426818627818827818928818b29818c29818e2a81902a81912b81932b80942c80' +
'962c80982d80992d809b2e7f9c2e7f9e2f7fa02f7fa1307ea3307ea5317ea6317da8327daa337dab337cad347cae347bb0357bb2357b' +
'b3367ab5367ab73779b83779ba3878bc3978bd3977bf3a77c03a76c23b75c43c75c53c74c73d73c83e73ca3e72cc3f71cd4071cf4070' +
'd0416fd2426fd3436ed5446dd6456cd8456cd9466bdb476adc4869de4968df4a68e04c67e24d66e34e65e44f64e55064e75263e85362' +
'e95462ea5661eb5760ec5860ed5a5fee5b5eef5d5ef05f5ef1605df2625df2645cf3655cf4675cf4695cf56b5cf66c5cf66e5cf7705c' +
'f7725cf8745cf8765cf9785df9795df97b5dfa7d5efa7f5efa815ffb835ffb8560fb8761fc8961fc8a62fc8c63fc8e64fc9065fd9266' +
'fd9467fd9668fd9869fd9a6afd9b6bfe9d6cfe9f6dfea16efea36ffea571fea772fea973feaa74feac76feae77feb078feb27afeb47b' +
'feb67cfeb77efeb97ffebb81febd82febf84fec185fec287fec488fec68afec88cfeca8dfecc8ffecd90fecf92fed194fed395fed597' +
'fed799fed89afdda9cfddc9efddea0fde0a1fde2a3fde3a5fde5a7fde7a9fde9aafdebacfcecaefceeb0fcf0b2fcf2b4fcf4b6fcf6b8' +
'fcf7b9fcf9bbfcfbbdfcfdbf',
inferno:
'00000401000501010601010802010a02020c02020e03021004031204031405041706041907051b08051d09061f0a07220b07240c0826' +
'0d08290e092b10092d110a30120a32140b34150b37160b39180c3c190c3e1b0c411c0c431e0c451f0c48210c4a230c4c240c4f260c51' +
'280b53290b552b0b572d0b592f0a5b310a5c320a5e340a5f3609613809623909633b09643d09653e0966400a67420a68440a68450a69' +
'470b6a490b6a4a0c6b4c0c6b4d0d6c4f0d6c510e6c520e6d540f6d550f6d57106e59106e5a116e5c126e5d126e5f136e61136e62146e' +
'64156e65156e67166e69166e6a176e6c186e6d186e6f196e71196e721a6e741a6e751b6e771c6d781c6d7a1d6d7c1d6d7d1e6d7f1e6c' +
'801f6c82206c84206b85216b87216b88226a8a226a8c23698d23698f24699025689225689326679526679727669827669a28659b2964' +
'9d29649f2a63a02a63a22b62a32c61a52c60a62d60a82e5fa92e5eab2f5ead305dae305cb0315bb1325ab3325ab43359b63458b73557' +
'b93556ba3655bc3754bd3853bf3952c03a51c13a50c33b4fc43c4ec63d4dc73e4cc83f4bca404acb4149cc4248ce4347cf4446d04545' +
'd24644d34743d44842d54a41d74b3fd84c3ed94d3dda4e3cdb503bdd513ade5238df5337e05536e15635e25734e35933e45a31e55c30' +
'e65d2fe75e2ee8602de9612bea632aeb6429eb6628ec6726ed6925ee6a24ef6c23ef6e21f06f20f1711ff1731df2741cf3761bf37819' +
'f47918f57b17f57d15f67e14f68013f78212f78410f8850ff8870ef8890cf98b0bf98c0af98e09fa9008fa9207fa9407fb9606fb9706' +
'fb9906fb9b06fb9d07fc9f07fca108fca309fca50afca60cfca80dfcaa0ffcac11fcae12fcb014fcb216fcb418fbb61afbb81dfbba1f' +
'fbbc21fbbe23fac026fac228fac42afac62df9c72ff9c932f9cb35f8cd37f8cf3af7d13df7d340f6d543f6d746f5d949f5db4cf4dd4f' +
'f4df53f4e156f3e35af3e55df2e661f2e865f2ea69f1ec6df1ed71f1ef75f1f179f2f27df2f482f3f586f3f68af4f88ef5f992f6fa96' +
'f8fb9af9fc9dfafda1fcffa4',
turbo:
'30123b32154333184a341b51351e5836215f37246638276d392a733a2d793b2f803c32863d358b3e38913f3b973f3e9c4040a24143a7' +
'4146ac4249b1424bb5434eba4451bf4454c34456c74559cb455ccf455ed34661d64664da4666dd4669e0466be3476ee64771e94773eb' +
'4776ee4778f0477bf2467df44680f64682f84685fa4687fb458afc458cfd448ffe4391fe4294ff4196ff4099ff3e9bfe3d9efe3ba0fd' +
'3aa3fc38a5fb37a8fa35abf833adf731aff52fb2f42eb4f22cb7f02ab9ee28bceb27bee925c0e723c3e422c5e220c7df1fc9dd1ecbda' +
'1ccdd81bd0d51ad2d21ad4d019d5cd18d7ca18d9c818dbc518ddc218dec018e0bd19e2bb19e3b91ae4b61ce6b41de7b21fe9af20eaac' +
'22ebaa25eca727eea42aefa12cf09e2ff19b32f29835f39438f4913cf58e3ff68a43f78746f8844af8804ef97d52fa7a55fa7659fb73' +
'5dfc6f61fc6c65fd6969fd666dfe6271fe5f75fe5c79fe597dff5680ff5384ff5188ff4e8bff4b8fff4992ff4796fe4499fe429cfe40' +
'9ffd3fa1fd3da4fc3ca7fc3aa9fb39acfb38affa37b1f936b4f836b7f735b9f635bcf534bef434c1f334c3f134c6f034c8ef34cbed34' +
'cdec34d0ea34d2e935d4e735d7e535d9e436dbe236dde037dfdf37e1dd37e3db38e5d938e7d739e9d539ebd339ecd13aeecf3aefcd3a' +
'f1cb3af2c93af4c73af5c53af6c33af7c13af8be39f9bc39faba39fbb838fbb637fcb336fcb136fdae35fdac34fea933fea732fea431' +
'fea130fe9e2ffe9b2dfe992cfe962bfe932afe9029fd8d27fd8a26fc8725fc8423fb8122fb7e21fa7b1ff9781ef9751df8721cf76f1a' +
'f66c19f56918f46617f36315f26014f15d13f05b12ef5811ed5510ec530feb500eea4e0de84b0ce7490ce5470be4450ae2430ae14109' +
'df3f08dd3d08dc3b07da3907d83706d63506d43305d23105d02f05ce2d04cc2b04ca2a04c82803c52603c32503c12302be2102bc2002' +
'b91e02b71d02b41b01b21a01af1801ac1701a91601a71401a41301a112019e10019b0f01980e01950d01920b018e0a018b0902880802' +
'8507028106027e05027a0403',
gray:
'0000000101010202020303030404040505050606060707070808080909090a0a0a0b0b0b0c0c0c0d0d0d0e0e0e0f0f0f101010111111' +
'1212121313131414141515151616161717171818181919191a1a1a1b1b1b1c1c1c1d1d1d1e1e1e1f1f1f202020212121222222232323' +
'2424242525252626262727272828282929292a2a2a2b2b2b2c2c2c2d2d2d2e2e2e2f2f2f303030313131323232333333343434353535' +
'3636363737373838383939393a3a3a3b3b3b3c3c3c3d3d3d3e3e3e3f3f3f404040414141424242434343444444454545464646474747' +
'4848484949494a4a4a4b4b4b4c4c4c4d4d4d4e4e4e4f4f4f505050515151525252535353545454555555565656575757585858595959' +
'5a5a5a5b5b5b5c5c5c5d5d5d5e5e5e5f5f5f6060606161616262626363636464646565656666666767676868686969696a6a6a6b6b6b' +
'6c6c6c6d6d6d6e6e6e6f6f6f7070707171717272727373737474747575757676767777777878787979797a7a7a7b7b7b7c7c7c7d7d7d' +
'7e7e7e7f7f7f8080808181818282828383838484848585858686868787878888888989898a8a8a8b8b8b8c8c8c8d8d8d8e8e8e8f8f8f' +
'9090909191919292929393939494949595959696969797979898989999999a9a9a9b9b9b9c9c9c9d9d9d9e9e9e9f9f9fa0a0a0a1a1a1' +
'a2a2a2a3a3a3a4a4a4a5a5a5a6a6a6a7a7a7a8a8a8a9a9a9aaaaaaabababacacacadadadaeaeaeafafafb0b0b0b1b1b1b2b2b2b3b3b3' +
'b4b4b4b5b5b5b6b6b6b7b7b7b8b8b8b9b9b9babababbbbbbbcbcbcbdbdbdbebebebfbfbfc0c0c0c1c1c1c2c2c2c3c3c3c4c4c4c5c5c5' +
'c6c6c6c7c7c7c8c8c8c9c9c9cacacacbcbcbcccccccdcdcdcecececfcfcfd0d0d0d1d1d1d2d2d2d3d3d3d4d4d4d5d5d5d6d6d6d7d7d7' +
'd8d8d8d9d9d9dadadadbdbdbdcdcdcdddddddedededfdfdfe0e0e0e1e1e1e2e2e2e3e3e3e4e4e4e5e5e5e6e6e6e7e7e7e8e8e8e9e9e9' +
'eaeaeaebebebecececedededeeeeeeefefeff0f0f0f1f1f1f2f2f2f3f3f3f4f4f4f5f5f5f6f6f6f7f7f7f8f8f8f9f9f9fafafafbfbfb' +
'fcfcfcfdfdfdfefefeffffff',
}


const SIGNED =
'05306106326407346708366a09396d0b3b700c3d730d3f760e41790f437c10457f114781124a84134c87144e8a16508d175290185493' +
'1956961a58991b5b9c1c5d9f1d5fa21e61a51f63a82165ab2267ad2369ad246bae266caf276eb02870b12a72b22b73b32d75b42e77b5' +
'2f79b6317bb7327cb7337eb83580b93682ba3783bb3985bc3a87bd3b89be3d8abf3e8cc03f8ec04190c14292c24493c34795c44a97c5' +
'4d99c6509bc7539dc9569fca59a1cb5da3cc60a5cd63a7ce66a9cf69abd06cadd16fafd272b1d375b3d478b5d57cb7d67fb9d782bbd8' +
'85bdda88bfdb8bc1dc8ec3dd91c5de94c6df96c7df99c9e09bcae19ecbe1a0cce2a3cee3a5cfe4a8d0e4aad1e5add3e6afd4e6b2d5e7' +
'b4d6e8b7d8e8b9d9e9bcdaeabedbebc1ddebc3deecc6dfedc8e0edcbe2eecde3efd0e4f0d2e5f0d4e6f1d5e7f1d7e8f2d9eaf3dbebf3' +
'ddecf4deedf4e0eef5e2eff6e4f0f6e6f1f7e7f2f7e9f3f8ebf4f9edf5f9eff6faf1f7faf2f8fbf4f9fbf6fafcf8fbfdfafcfdfbfdfe' +
'fdfefefffffffffefdfffcfbfffbf8fff9f6fff8f4fff6f2fef5f0fef4edfef2ebfef1e9feefe7feeee5feede2feebe0feeadefee8dc' +
'fee7dafee5d7fee4d5fde3d3fde1d1fde0cefddeccfdddcafddcc8fddac5fcd8c3fcd5c0fcd3bdfbd1bbfbcfb8fbcdb5facbb2fac9b0' +
'fac7adf9c4aaf9c2a7f9c0a5f8bea2f8bc9ff7ba9df7b89af7b697f6b394f6b192f6af8ff5ad8cf5ab8af5a987f4a784f4a482f3a27f' +
'f19f7df09c7bef9a79ee9777ed9475eb9173ea8f71e98c6fe8896de7876be68469e48166e37e64e27c62e17960e0765edf745cdd715a' +
'dc6e58db6b56da6954d96652d76350d6614dd55e4cd35b4bd25849d15548cf5247ce5045cc4d44cb4a43ca4741c84440c7413fc53f3d' +
'c43c3cc2393bc13639c03338be3037bd2e35bb2b34ba2832b92531b72230b61f2eb41d2db31a2cb1182bae172aab162aa81529a51429' +
'a213289f12289c1128991027960f27930e26900d268d0c258a0b25870a248509248209237f08237c0722790622760521730421700320' +
'6d02206a011f67001f'


const AGAINST_AND_FOR = ['1f77d0', 'e03c28']

return { COLORMAPS, SIGNED, AGAINST_AND_FOR }
})()
const $generation_js = (() => {
const NUMBERS = ['max_new_tokens', 'num_beams', 'temperature', 'top_k', 'top_p', 'seed']
const LANGUAGES = ['source_language', 'target_language']


const GENERATION = [...NUMBERS, ...LANGUAGES]


function generationOf(model, selection) {
const chosen = (names) => names.filter((name) => selection[name] !== '')
return {
seed: 0,
...Object.fromEntries(chosen(NUMBERS).map((name) => [name, Number(selection[name])])),
...Object.fromEntries(chosen(LANGUAGES).map((name) => [name, selection[name]])),
...(Number(selection.alternatives) && { alternatives: Number(selection.alternatives) }),
}
}

return { GENERATION, generationOf }
})()
const $roving_js = (({ html, useLayoutEffect, useRef }) => {


const STEPS = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1, Home: -Infinity, End: Infinity }
const BACK = { ArrowLeft: 1, ArrowRight: -1 }


function stepTo({ key, currentTarget }, at, count) {
const step = (getComputedStyle(currentTarget).direction === 'rtl' && BACK[key]) || STEPS[key]
return step && Math.min(Math.max(at + step, 0), count - 1)
}


function Roving({ children, ...attributes }) {
const box = useRef()
const buttons = () => [...box.current.querySelectorAll('button')]
const stopAt = (stop) => buttons().forEach((one) => (one.tabIndex = one === stop ? 0 : -1))
useLayoutEffect(() => {
const all = buttons()
stopAt(all.find((one) => one === document.activeElement) ?? all.find(({ ariaPressed }) => ariaPressed === 'true')
?? all[0])
})
const key = (event) => {
const all = buttons()
const next = all.includes(event.target) && stepTo(event, all.indexOf(event.target), all.length)
if (!all[next]) return
event.preventDefault()
all[next].focus()
}
return html`<div role="group" ...${attributes} ref=${box} onKeyDown=${key}
onfocusin=${({ target }) => buttons().includes(target) && stopAt(target)}>${children}</div>`
}

return { stepTo, Roving }
})($preact_js)
const $lazy_js = (({ html, useEffect, useState }) => {


const SCRIPT = 'page/joined-later.js'

let asked = null
let parts = null


function arrive(given) {
parts = given
}


function load() {
asked ??= parts ? Promise.resolve(parts) : new Promise((done, fail) => {
const ended = () => (parts ? done(parts) : fail())
document.head.append(Object.assign(document.createElement('script'), { src: SCRIPT, onload: ended, onerror: fail }))
}).catch(() => {
asked = null
throw new Error('This part of the page could not be loaded: load the page anew.')
})
return asked
}


function useLater(wanted) {
const [found, set] = useState(parts ?? {})
useEffect(() => {
if (wanted) load().then(set, ({ message }) => set({ wrong: message }))
}, [wanted])
return found
}


function Later({ part, ...props }) {
const { [part]: Part, wrong } = useLater(true)
if (wrong) return html`<p class="problem">${wrong}</p>`
return Part && html`<${Part} ...${props} />`
}

return { arrive, load, useLater, Later }
})($preact_js)
const $select_js = (({ html }) => {



function Select({ words, id, name, values, chosen, choose, term }) {
const option = ([value, shown]) => html`<option key=${value} value=${value}>${shown}</option>`
return html`<label data-term=${term}>${words} <select aria-description=${term}
id=${id} name=${name} value=${chosen} onChange=${({ target }) => choose(target.value)}>
${values.map(option)}
</select><span data-term=${term}></span></label>`
}

return { Select }
})($preact_js)
const $figures_js = (({ html, useState }) => {


const [MOST_COLUMNS, MOST_CELLS] = [64, 5000]


const tabbed = (head, rows) =>
[head, ...rows].map((row) => row.map((one) => String(one).replaceAll(/[\t\n]/g, ' ')).join('\t')).join('\n')






function Figures({ caption, head, rows, sorts = false, choose }) {
const [order, sort] = useState(null)
const [said, say] = useState('')
const places = [...rows.keys()]
if (order) {
const sign = order.down ? -1 : 1
const of = (at) => String(rows[at][order.column])
const compare = (one, other) => Number(one) - Number(other) || one.localeCompare(other, 'en', { numeric: true })
places.sort((one, other) => sign * compare(of(one), of(other)))
}
const columns = Math.min(head.length, MOST_COLUMNS)
const shown = places.slice(0, Math.floor(MOST_CELLS / columns))
const copy = async () => {
const text = tabbed(head, places.map((at) => rows[at]))
const copied = await navigator.clipboard?.writeText(text).then(() => true, () => false)
say(copied ? 'Copied.' : 'The browser gives no clipboard here.')
}
const turn = (column) => sort({ column, down: order?.column === column && !order.down })
const heading = (words, column) => html`<th scope="col"
aria-sort=${order?.column === column ? (order.down ? 'descending' : 'ascending') : null}>
${sorts && words
? html`<button type="button" class="plain" onClick=${() => turn(column)}>${words}</button>` : words}
</th>`
const cell = (value, at, column) => html`<td>${choose && !column
? html`<button type="button" class="plain" onClick=${() => choose(at)}>${value}</button>` : value}</td>`
return html`
<div class="figures" tabindex="0" role="region" aria-label=${caption}><table>
<caption>${caption}</caption>
<thead><tr>${head.slice(0, columns).map(heading)}</tr></thead>
<tbody>${shown.map((at) => html`<tr key=${at}>
${rows[at].slice(0, columns).map((one, column) => cell(one, at, column))}
</tr>`)}</tbody>
</table></div>
<div class="row"><button type="button" onClick=${copy}>Copy as a table</button><small role="status">${said}</small>
</div>
${(columns < head.length || shown.length < rows.length) && html`<p class="quiet">
${shown.length} of ${rows.length} rows and ${columns} of ${head.length} columns are shown; all are copied.</p>`}`
}


function AsTable({ table }) {
const [open, setOpen] = useState(false)
return html`<details class="as-table" open=${open} onToggle=${({ target }) => setOpen(target.open)}>
<summary>As a table</summary>
${open && html`<${Figures} ...${table()} />`}
</details>`
}

return { Figures, AsTable }
})($preact_js)
const $hearing_js = (({ useEffect, useState }) => {


const player = () => document.getElementById('player')


function hearFrom(seconds) {
const one = player()
if (!one) return
one.currentTime = seconds
one.play().catch(() => {})
}


function useHeard() {
const [at, set] = useState(null)
useEffect(() => {
let frame = 0
const look = () => {
const plays = player() && !player().paused
set(plays ? player().currentTime : null)
cancelAnimationFrame(frame)
if (plays) frame = requestAnimationFrame(look)
}
const told = ['play', 'pause', 'ended', 'emptied']
told.forEach((name) => document.addEventListener(name, look, true))
return () => {
cancelAnimationFrame(frame)
told.forEach((name) => document.removeEventListener(name, look, true))
}
}, [])
return at
}

return { hearFrom, useHeard }
})($preact_js)
const $transcript_js = (({ percent }) => {



const HEARD = {
field: 'segments',
options: () => ({ timestamps: 'word', seed: 0 }),
prints: ['print(answer.text)', 'for one in answer.words:', '    print(one.start, one.end, one.word)'],
items: ({ words = [] }) => words.map((one, object) => ({ object })),
explained: () => ({}),
scored: (model, { row }) => ({ target: Number(row) }),
named: () => 'what was said',
best: ({ text, words = [] }) => (
{ name: text, share: words.length ? Math.min(...words.map(({ probability }) => probability)) : undefined }),
said: ({ text }) => text,
}


const spanOf = ({ start, end }) => `${start.toFixed(2)}–${end.toFixed(2)} s`


const timeOf = (word) => `${spanOf(word)}, ${percent(word.probability, 0)}`


function wordAt(words, seconds) {
const at = seconds === null ? -1 : words.findIndex(({ start, end }) => start <= seconds && seconds < end)
return at < 0 ? null : at
}





function rowsOf(words, tokens) {
let text = ''
const places = tokens.map(({ text: own, special }) => {
const from = text.length
if (!special) text += own
return special ? [-1, -1] : [from, Math.max(text.length, from + 1)]
})
let end = 0
return words.map(({ word }) => {
const from = Math.max(text.indexOf(word, end), end)
end = from + word.length
return places.flatMap(([first, last], row) => (last > from && first < end ? [row] : []))
})
}

return { HEARD, spanOf, timeOf, wordAt, rowsOf }
})($values_js)
const $objects_js = (({ html, useState }, { lengthOf, percent }) => {








function useObjects(found, selection, change) {
const [over, hover] = useState(null)
const known = (number) => (found.some(({ object }) => object === number) ? number : null)
const hovered = known(over)
const pinned = selection.object === '' ? null : known(Number(selection.object))
const pin = (number) => {
if (number === null) hover(null)
change({ object: number === null || number === pinned ? '' : String(number) })
}
return { hovered, pinned, shown: hovered ?? pinned ?? found[0]?.object ?? null, hover, pin }
}





function Found({ results: [{ objects: found }], before, least, objects }) {
const above = least === undefined ? '' : ` above ${percent(least, 0)}`
if (!found.length) return html`<p class="nothing">Nothing found${above}.</p>`
const old = new Map(before?.[0].objects?.map(({ object, index, probability }) => [`${object} ${index}`, probability]))
const item = ({ object, index, label, probability }) => {
const was = old.get(`${object} ${index}`)
const parts = html`
<span>${label}</span>
<span class="bar">
${was !== undefined && html`<span class="was" style=${{ width: lengthOf(was) }}></span>`}
<span style=${{ width: lengthOf(probability) }}></span>
</span>
<span>${percent(probability)}${was !== undefined && html`<small> was ${percent(was)}</small>`}</span>`
const { shown, pinned, hover, pin } = objects ?? {}
return html`<li key=${`${object} ${index}`}>
${objects ? html`<button type="button" data-object=${object}
class=${object === shown ? 'shown' : ''}
aria-pressed=${String(object === pinned)}
onPointerEnter=${() => hover(object)} onPointerLeave=${() => hover(null)}
onFocus=${() => hover(object)} onBlur=${() => hover(null)}
onClick=${() => pin(object)}>${parts}</button>` : html`<div>${parts}</div>`}
</li>`
}
const unpin = ({ key }) => key === 'Escape' && objects?.pin(null)
return html`<ol class="found" aria-label="Objects" onKeyDown=${unpin}>${found.map(item)}</ol>`
}


function Threshold({ least, choose }) {
const [moved, move] = useState(null)
const shown = moved ?? least
return html`<label>
Found from ${percent(shown, 0)} on
<input type="range" id="threshold" name="threshold" min="0" max="1" step="0.01" value=${shown}
onInput=${({ target }) => move(Number(target.value))}
onChange=${({ target }) => (move(null), choose(target.value))} />
</label>`
}

return { useObjects, Found, Threshold }
})($preact_js, $values_js)
const $boxes_js = (({ html }, { clamp, lengthOf, percent }) => {



const INSIDE = 0.07


function objectAt(objects, x, y) {
const here = objects.filter(({ box: { left, top, right, bottom } }) =>
left <= x && x <= right && top <= y && y <= bottom)
const area = ({ box: { left, top, right, bottom } }) => (right - left) * (bottom - top)
return here.sort((one, other) => area(one) - area(other))[0]?.object ?? null
}





function Boxes({ objects, frame, marked = null, pinned = null }) {
const across = (x) => clamp((x - frame.left) / frame.width, 0, 1)
const down = (y) => clamp((y - frame.top) / frame.height, 0, 1)
const drawn = ({ object, label, probability, box }) => {
const [left, top, right, bottom] = [across(box.left), down(box.top), across(box.right), down(box.bottom)]
const names = ['box-of', object === marked && 'marked', object === pinned && 'pinned', top < INSIDE && 'inside']
return html`<div key=${object} class=${names.filter(Boolean).join(' ')} data-object=${object} style=${{
left: lengthOf(left), top: lengthOf(top), width: lengthOf(right - left), height: lengthOf(bottom - top),
}}><span>${label}${object === marked && ` ${percent(probability)}`}</span></div>`
}
return html`<div class="boxes" aria-hidden="true">${objects.map(drawn)}</div>`
}

return { objectAt, Boxes }
})($preact_js, $values_js)
const $colours_js = (({ AGAINST_AND_FOR, COLORMAPS, SIGNED }) => {



const SERIES = [
'#3b82f6', '#e07010', '#12935a', '#e0434d', '#9b5de5', '#0f95a5', '#d9469b', '#8a8a12', '#a8693a', '#78828d',
]


const AGAINST = `#${AGAINST_AND_FOR[0]}`


const FOR = `#${AGAINST_AND_FOR[1]}`


const COLORMAP_NAMES = Object.keys(COLORMAPS)

const bytesOf = (hex) => Uint8ClampedArray.from(hex.match(/../g), (byte) => parseInt(byte, 16))

const once = new Map()


function paletteOf(name, signed) {
const key = signed ? 'signed' : name
if (!once.has(key)) {
const hex = signed ? SIGNED + SIGNED.slice(-6) : COLORMAPS[name] ?? COLORMAPS.viridis
once.set(key, bytesOf(hex))
}
return once.get(key)
}


function opaque(name, signed) {
const palette = paletteOf(name, signed)
return Uint32Array.from({ length: 256 }, (_, level) => pixel(palette, 3 * level, 255))
}





function translucent(name, signed, opacity) {
if (!signed) {
const palette = paletteOf(name, false)
return Uint32Array.from({ length: 256 }, (_, level) => pixel(palette, 3 * level, opacity * level))
}
const [against, speaksFor] = AGAINST_AND_FOR.map(bytesOf)
return Uint32Array.from({ length: 256 }, (_, level) => {
const size = Math.min(Math.abs(level - 127) / 127, 1)
return pixel(level < 127 ? against : speaksFor, 0, 255 * opacity * size)
})
}

const pixel = (bytes, at, alpha) =>
bytes[at] | (bytes[at + 1] << 8) | (bytes[at + 2] << 16) | (Math.round(alpha) << 24)


function levels(low, top, signed) {
const [from, scale] = signed ? [-top, 127 / top] : [low, 255 / (top - low)]
const most = signed ? 254 : 255
if (!Number.isFinite(scale)) return () => (signed ? 127 : 0)
return (value) => Math.min(Math.max(Math.floor((value - from) * scale + 0.5), 0), most) || 0
}

return { SERIES, AGAINST, FOR, COLORMAP_NAMES, paletteOf, opaque, translucent, levels }
})($tables_js)
const $ranked_js = (({ html }, { Roving }, { lengthOf, percent, short }) => {





const partsOf = (scores) => (scores.every((one) => one >= 0 && one <= 1) ? scores
: scores.map((one) => 1 / (1 + Math.exp(-one))))





function Ranked({ results: [{ ranked }], before, objects }) {
const figure = ({ share, score }) => (share === undefined ? short(score) : percent(share))
const old = new Map(before?.[0].ranked?.map((one) => [one.object, figure(one)]))
const parts = partsOf(ranked.map(({ share, score }) => share ?? score))
const { shown, pinned, hover, pin } = objects
const item = (one, at) => html`<li key=${one.object}>
<button type="button" data-object=${one.object} class=${one.object === shown ? 'shown' : ''} dir="auto"
aria-pressed=${String(one.object === pinned)}
onPointerEnter=${() => hover(one.object)} onPointerLeave=${() => hover(null)}
onFocus=${() => hover(one.object)} onBlur=${() => hover(null)} onClick=${() => pin(one.object)}>
<span>${one.text}</span>
<span class="bar"><span style=${{ width: lengthOf(one.part ?? parts[at]) }}></span></span>
<span>${figure(one)}${old.has(one.object) && html`<small> was ${old.get(one.object)}</small>`}</span>
</button>
</li>`
return html`<div onKeyDown=${({ key }) => key === 'Escape' && pin(null)}>
<${Roving} aria-label="Best first; arrow keys move over them, Enter pins one">
<ol class="ranked">${ranked.map(item)}</ol>
<//>
</div>`
}

return { Ranked }
})($preact_js, $roving_js, $values_js)
const $answer_js = (({ Later }, { html, useState }, { Roving }, { cosine, labelOf, lengthOf, normOf, percent, short }) => {






const chances = (list, key) => list?.map((one) => ({
key: one[key], name: one.label ?? one.text, share: one.probability ?? Math.exp(one.log_probability),
}))


function Bars({ shares, before = [] }) {
const old = new Map(before.map(({ key, share }) => [key, share]))
const bar = ({ key, name, share }) => {
const was = old.get(key)
return html`<li key=${key}>
<span>${name}</span>
<div>
${was !== undefined && html`<div class="was" style=${{ width: lengthOf(was) }}></div>`}
<div style=${{ width: lengthOf(share) }}></div>
</div>
<span>${percent(share)}${was !== undefined && html`<small> was ${percent(was)}</small>`}</span>
</li>`
}
return html`<ol class="labels">${shares.map(bar)}</ol>`
}





function Classes({ results: [{ labels }], before }) {
if (labels.some(({ score }) => score !== undefined)) {
return html`<ul>${labels.map(({ label, score }) => html`<li>${label}: ${short(score)}</li>`)}</ul>`
}
return html`<${Bars} shares=${chances(labels, 'index')} before=${chances(before?.[0].labels, 'index')} />`
}


const Words = ({ results: [{ words }] }) =>
html`<ul>${words.map(({ token, text, weight }) => html`<li key=${token}>${text}: ${short(weight)}</li>`)}</ul>`


function Masks({ results: [{ candidates }], before }) {
return candidates.map((some, mask) => html`
${candidates.length > 1 && html`<small>Mask ${mask + 1}</small>`}
<${Bars} shares=${chances(some, 'token')} before=${chances(before?.[0].candidates?.[mask], 'token')} />`)
}


function Vector({ results: [{ embedding, alike = [] }], before, objects }) {
const was = before?.[0].embedding?.length === embedding.length && before[0].embedding
return html`
${alike.length > 0 && html`
<p>Cosine with each text, the most alike first:</p>
<${Later} part="Ranked" results=${[{ ranked: alike }]} before=${before && [{ ranked: before[0].alike }]}
objects=${objects} />`}
${was && html`<p>Likeness to what it was (cosine): <strong>${short(cosine(embedding, was))}</strong></p>`}
<small>${embedding.length} numbers, a vector of length ${short(normOf(embedding))}:
${` ${embedding.slice(0, 8).map(short).join(', ')}`}${embedding.length > 8 && ', …'}</small>`
}


function Written({ results: [result], before, streaming, pinned, pin, replay, playing }) {
const { tokens = [], score, finish_reason: reason } = result
const shown = tokens[pinned]
const was = before?.[0].text
const token = ({ text, log_probability: log }, at) => html`<button type="button" key=${at}
aria-pressed=${at === pinned}
aria-label=${text.trim() ? null : labelOf({ text })}
title=${log === undefined ? null : percent(Math.exp(log))}
onClick=${() => pin(at === pinned ? null : at)}>${text || '·'}</button>`
const end = reason === 'stop' ? 'ended by itself' : 'cut at its longest'
const play = html` <button type="button" class="plain" id="play" onClick=${replay}>
${playing ? 'Stop' : 'Play its steps'}
</button>`
return html`
<${Roving} class="words" dir="auto" aria-label="Tokens of the answer">
${tokens.map(token)}${streaming && html`<span class="cursor" aria-hidden="true">▍</span>`}
<//>
${was !== undefined && was !== result.text && html`<p class="quiet">It was “${was}”.</p>`}
${shown?.alternatives?.length > 0 && html`
<small>What might have stood in place of “${shown.text}”</small>
<${Bars} shares=${chances(shown.alternatives, 'token')} />`}
${reason && html`<p class="quiet">Score ${short(score)}, ${end}.${replay && tokens.length > 1 && play}</p>`}`
}


function Language({ words, name, model, selection, change, own }) {
return html`
<label>${words} <select
name=${name} value=${selection[name]} onChange=${({ target }) => change({ [name]: target.value })}>
<option value="">${own ? `model’s (${own})` : 'model’s choice'}</option>
${model.languages.codes.map((code) => html`<option value=${code}>${code}</option>`)}
</select></label>`
}


function NumberField({ words, chosen, choose, ...attributes }) {
const [typed, type] = useState(null)
const leave = ({ target }) => target.reportValidity() && (type(null), choose(target.value))
return html`<label>${words} <input
type="number" placeholder="model’s" ...${attributes} value=${typed ?? chosen}
onInput=${({ target }) => type(target.value === chosen ? null : target.value)} onChange=${leave} /></label>`
}


function GenerationOptions({ selection, change, model }) {
const { limits, languages } = model
const [open, setOpen] = useState(false)
const number = (name, words, min, max, step = 1) => html`<${NumberField} words=${words} name=${name} min=${min}
max=${max} step=${step} chosen=${selection[name]} choose=${(value) => change({ [name]: value })} />`
const chosen = { model, selection, change }
return html`
${languages && html`<div class="fields">
${languages.source && html`
<${Language} ...${chosen} words="From" name="source_language" own=${languages.source} />`}
<${Language} ...${chosen} words="To" name="target_language" own=${languages.target} />
</div>`}
<details class="generation" open=${open} onToggle=${({ target }) => setOpen(target.open)}>
<summary>How it is written</summary>
<div class="fields">
${number('num_beams', 'Beams', 1, limits.num_beams ?? 8)}
${number('temperature', 'Temperature', 0, 100, 'any')}
${number('top_k', 'Top k', 1, 1000000)}
${number('top_p', 'Top p', 0, 1, 'any')}
${number('max_new_tokens', 'Tokens', 1, limits.max_new_tokens)}
${number('seed', 'Seed', 0, 2 ** 31)}
${number('alternatives', 'Alternatives', 0, 20)}
</div>
</details>`
}

return { Classes, Words, Masks, Vector, Written, GenerationOptions }
})($lazy_js, $preact_js, $roving_js, $values_js)
const $heard_js = (({ hearFrom, useHeard }, { html }, { Roving }, { timeOf, wordAt }, { lengthOf }) => {










function Heard({ results: [{ text, language, words = [] }], objects, pin: pinRow }) {
const heard = wordAt(words, useHeard())
const { pinned, pin } = objects ?? { pinned: null, pin: () => {} }
const choose = (at) => {
pinRow?.(null)
if (at !== pinned) pin(at)
hearFrom(words[at].start)
}
const button = (one, at) => html`<button type="button" key=${at} title=${timeOf(one)}
aria-pressed=${String(at === pinned)} aria-current=${at === heard ? 'true' : null} onClick=${() => choose(at)}
style=${{ '--sure': lengthOf(one.probability) }}>${one.word}</button>`
if (!text) return html`<p class="nothing">Nothing was said.</p>`
return html`<div onKeyDown=${({ key }) => key === 'Escape' && pin(null)}>
${words.length ? html`<${Roving} class="words heard" dir="auto"
aria-label="Words; arrow keys move over them, Enter plays from one">${words.map(button)}<//>` : text}
${language && html`<p class="quiet">Language: ${language}.</p>`}
</div>`
}

return { Heard }
})($hearing_js, $preact_js, $roving_js, $transcript_js, $values_js)
const $canvas_js = (({ levels }, { useEffect, useLayoutEffect, useRef, useState }, { clamp }) => {




const NEARLY_WHITE = 200
const MOST_JUDGED = 2 ** 20


function useSize(ref) {
const [size, resize] = useState({ width: 0, height: 0 })
useLayoutEffect(() => {
const look = () => {
const { clientWidth: width, clientHeight: height } = ref.current
resize((old) => (old.width === width && old.height === height ? old : { width, height }))
}
const observer = new ResizeObserver(look)
observer.observe(ref.current)
look()
return () => observer.disconnect()
}, [])
return size
}


function useDensity() {
const [density, change] = useState(devicePixelRatio)
useEffect(() => {
const query = matchMedia(`(resolution: ${density}dppx)`)
const look = () => change(devicePixelRatio)
query.addEventListener('change', look)
return () => query.removeEventListener('change', look)
}, [density])
return density
}


function useSame(list, same = Object.is) {
const before = useRef(list)
const old = before.current
const equal = old === list || (old?.length === list?.length && old?.constructor === list?.constructor
&& Boolean(old?.every((one, at) => same(one, list[at]))))
if (!equal) before.current = list
return before.current
}


function useDrawing(draw, changes) {
useLayoutEffect(() => {
const frame = requestAnimationFrame(draw)
return () => cancelAnimationFrame(frame)
}, changes)
}


const canvasOf = (width, height) => Object.assign(document.createElement('canvas'), { width, height })





function opaque(bitmap) {
const { width, height } = bitmap
const scale = Math.min(1, Math.sqrt(MOST_JUDGED / (width * height)))
const small = canvasOf(Math.ceil(width * scale), Math.ceil(height * scale))
const pen = small.getContext('2d', { willReadFrequently: true })
pen.drawImage(bitmap, 0, 0, small.width, small.height)
const { data } = pen.getImageData(0, 0, small.width, small.height)
let [clear, solid, bright] = [false, 0, 0]
for (let at = 0; at < data.length; at += 4) {
const [red, green, blue, alpha] = [data[at], data[at + 1], data[at + 2], data[at + 3]]
if (alpha < 255) clear = true
if (alpha < 128) continue
solid++
if (0.299 * red + 0.587 * green + 0.114 * blue > NEARLY_WHITE) bright++
}
if (!clear) return bitmap
const canvas = canvasOf(width, height)
const brush = canvas.getContext('2d')
brush.fillStyle = bright > solid / 2 ? 'black' : 'white'
brush.fillRect(0, 0, width, height)
brush.drawImage(bitmap, 0, 0)
return canvas
}


function blobOf(address) {
const [head, data] = address.split(',')
const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0))
return new Blob([bytes], { type: /data:([^;]*)/.exec(head)[1] })
}


function brushOf(canvas, width, height) {
if (canvas.width !== width) canvas.width = width
if (canvas.height !== height) canvas.height = height
return canvas.getContext('2d')
}


function meanColour(...parts) {
const sums = [0, 0, 0]
let pixels = 0
for (const { data } of parts) {
for (let at = 0; at < data.length; at += 4, pixels++) {
for (let channel = 0; channel < 3; channel++) sums[channel] += data[at + channel]
}
}
return `rgb(${sums.map((sum) => Math.round(sum / pixels))})`
}


function painted(values, rows, columns, table, low, top, signed) {
const image = new ImageData(columns, rows)
const pixels = new Uint32Array(image.data.buffer)
const level = levels(low, top, signed)
for (let at = 0; at < pixels.length; at++) pixels[at] = table[level(values[at])]
return image
}


function mixed(colours, rows, columns, opacity) {
const image = new ImageData(columns, rows)
colours.forEach((values, channel) => values.forEach((value, at) => (image.data[4 * at + channel] = 255 * value)))
for (let at = 3; at < image.data.length; at += 4) image.data[at] = 255 * opacity
return image
}


function smoothed(values, rows, columns, height, width) {
const places = (length, cells) => Array.from({ length }, (_, at) => {
const place = clamp(((at + 0.5) * cells) / length - 0.5, 0, cells - 1)
const cell = Math.min(Math.floor(place), Math.max(cells - 2, 0))
return [cell, Math.min(cell + 1, cells - 1), place - cell]
})
const wide = new Float32Array(rows * width)
places(width, columns).forEach(([left, right, part], x) => {
for (let row = 0; row < rows; row++) {
const line = row * columns
wide[row * width + x] = values[line + left] + part * (values[line + right] - values[line + left])
}
})
const fine = new Float32Array(height * width)
places(height, rows).forEach(([up, down, part], y) => {
for (let x = 0; x < width; x++) {
const value = wide[up * width + x]
fine[y * width + x] = value + part * (wide[down * width + x] - value)
}
})
return fine
}


function pooled(values, rows, columns, most, signed) {
if (rows <= most && columns <= most) return { values, rows, columns }
const [high, wide] = [Math.min(rows, most), Math.min(columns, most)]
const blocks = new Float32Array(high * wide)
for (let row = 0; row < rows; row++) {
const start = Math.floor((row * high) / rows) * wide
for (let column = 0; column < columns; column++) {
const at = start + Math.floor((column * wide) / columns)
const value = values[row * columns + column]
if (signed ? Math.abs(value) > Math.abs(blocks[at]) : value > blocks[at]) blocks[at] = value
}
}
return { values: blocks, rows: high, columns: wide }
}

return { useSize, useDensity, useSame, useDrawing, canvasOf, opaque, blobOf, brushOf, meanColour, painted, mixed, smoothed, pooled }
})($colours_js, $preact_js, $values_js)
const $marked_js = (({ SERIES }, { html }, { Roving }, { directionOf, percent }) => {






function pieces(text, marks) {
const characters = [...text]
const cut = (from, to) => characters.slice(from, to).join('')
let end = 0
const parts = [...marks].sort((one, other) => one.start - other.start).flatMap((mark) => {
const between = cut(end, mark.start)
end = mark.end
return [{ text: between }, { text: cut(mark.start, end), mark }]
})
return [...parts, { text: cut(end) }].filter(({ text: own }) => own)
}





function Marked({ results: [{ entities, text }], objects: { shown, pinned, hover, pin }, what = 'Entities' }) {
if (!entities.length) return html`<p class="nothing">Nothing found.</p>`
const colours = [...new Set(entities.map(({ label }) => label))]
const mark = ({ object, label, probability }, own) => html`<button type="button" key=${object} data-object=${object}
class=${object === shown ? 'shown' : ''} aria-pressed=${String(object === pinned)} title=${percent(probability)}
style=${{ '--tint': SERIES[colours.indexOf(label) % SERIES.length] }}
onPointerEnter=${() => hover(object)} onPointerLeave=${() => hover(null)}
onFocus=${() => hover(object)} onBlur=${() => hover(null)} onClick=${() => pin(object)}
>${own}<small>${label}</small></button>`
const one = entities.find(({ object }) => object === shown)
return html`<div onKeyDown=${({ key }) => key === 'Escape' && pin(null)}>
<${Roving} class="marked" dir=${directionOf([{ text }])}
aria-label=${`${what} in the text; arrow keys move over them, Enter pins one`}>
${pieces(text, entities).map((piece) => (piece.mark ? mark(piece.mark, piece.text) : piece.text))}
<//>
${one && what === 'Entities' && html`<p class="quiet">“${one.text}”: ${one.label}, ${percent(one.probability)}</p>`}
</div>`
}

return { pieces, Marked }
})($colours_js, $preact_js, $roving_js, $values_js)
const $drawing_js = (({ COLORMAP_NAMES }, { html }, { Select }) => {








function DrawControls({ selection, change, text, pairs, asks = false }) {
const box = (name, words, also, key = name, value = '1') => html`<label class="box">
<input type="checkbox" name=${name} checked=${selection[key] === value}
onChange=${({ target }) => change({ [key]: target.checked ? value : '', ...also })} />
${words}
</label>`
const slider = (name, words, min) => html`<label>
${words}
<input type="range" name=${name} id=${name} min=${min} max="1" step="0.01" value=${selection[name]}
onInput=${({ target }) => change({ [name]: target.value })} />
</label>`
return html`<details class="drawing">
<summary>How it is drawn</summary>
${slider('keep', `Only the largest: ${Math.round(100 * selection.keep)} % of the mass`, 0.05)}
${!text && slider('opacity', 'Opacity', 0)}
<${Select} words="Colours" name="colormap" values=${COLORMAP_NAMES.map((name) => [name, name])}
chosen=${selection.colormap} choose=${(colormap) => change({ colormap })} />
${!text && box('smooth', 'smooth between patches')}
${!text && box('grey', 'grey ground')}
${!text && box('full', 'colours to the largest value')}
${text && asks && box('merge', 'words instead of tokens', { row: '' })}
${text && asks && box('sentences', 'sentences instead of tokens', { row: '' }, 'merge', 'sentences')}
${text && box('special', 'hide special tokens')}
${text && pairs && box('only', 'from the first text to the second alone')}
${box('own', 'each map on its own scale')}
</details>`
}

return { DrawControls }
})($colours_js, $preact_js, $select_js)
const $task_js = (({ Classes }, { Later }, { html }, { percent, short }) => {






const rowOf = ({ merge, row }) => (merge ? 0 : Number(row))


const later = (part) => (props) => html`<${Later} part=${part} ...${props} />`










const CLASSES = {
field: 'labels',
View: Classes,
options: () => ({}),
inputs: (text, pair) => [text, pair],
prints: ['print(answer.json)'],
explained: (model, { target }) => (target ? { target } : {}),
scored: (model, selection, { queries }) =>
(queries === undefined ? {} : { queries: queries === 'all' ? rowOf(selection) : queries }),
named: ({ labels }, { target }) => labels?.find(({ index }) => index === target)?.label,
best: ({ labels: [best] = [] }) => best && { name: best.label, share: best.probability, score: best.score },
said(result) {
const { name, share, score } = this.best(result) ?? {}
return name === undefined ? '' : `${name}, ${share === undefined ? short(score) : percent(share)}`
},
}

return { rowOf, later, CLASSES }
})($answer_js, $lazy_js, $preact_js, $values_js)
const $tokens_js = (({ useSame }, { AGAINST, FOR }, { html, useLayoutEffect, useMemo, useRef }, { stepTo }, { directionOf, labelOf, percent, rowOrMean, short }) => {






const DEEPEST = 0.45
const SURE = 0.5





function cut(characters, tokens) {
const pieces = []
let [end, last] = [0, null]
const add = (text, special = false) => pieces.push({ text, special }) - 1
const until = (place) => add(characters.slice(end, (end = place)).join(''))
const owners = tokens.map(({ text, span }) => {
if (!span) return add(text, true)
if (span[0] === span[1]) return null
if (span[0] > end) until(span[0])
return span[1] > end ? (last = until(span[1])) : last
})
until(characters.length)
return { pieces, owners }
}


function cutBoth(text, pair, tokens) {
const at = tokens.findIndex(({ sequence }) => sequence)
const [one, other] = [cut([...text], tokens.slice(0, at)), cut([...pair], tokens.slice(at))]
const second = one.pieces.length
const owners = other.owners.map((owner) => (owner === null ? null : owner + second))
return { pieces: [...one.pieces, ...other.pieces], owners: [...one.owners, ...owners], second }
}


function shares(weights, owners, count, signed) {
const sums = new Float32Array(count)
owners.forEach((owner, at) => owner !== null && (sums[owner] += weights[at]))
const most = sums.reduce((most, sum) => Math.max(most, signed ? Math.abs(sum) : sum), 1e-9)
return sums.map((sum) => sum / most)
}


function tintOf(part, signed) {
const tint = Math.round(100 * DEEPEST * (signed ? part : Math.max(part, 0)))
return `--weight: ${Math.abs(tint)}%${signed ? `; --tint: ${tint < 0 ? AGAINST : FOR}` : ''}`
}





function readout({ rows, columns, values, row, column = null, sure, explains = false, alike = false }) {
const weights = rowOrMean(values, columns.length, row)
const where = ({ span, sequence }) =>
span ? ` at character ${span[0]}${sequence ? ' of the second text' : ''}` : ''
const at = (key) => `“${labelOf(columns[key])}”${where(columns[key])}: ${short(weights[key])}`
const best = [...columns.keys()].filter((key) => weights[key] > 0)
.sort((one, other) => weights[other] - weights[one]).slice(0, 3)
const who = row === null ? 'The mean of all'
: `“${labelOf(rows[row])}”${sure === undefined ? '' : `, probability ${percent(sure)},`}`
const [verb, link] = explains ? ['owes', 'to'] : alike ? ['is', 'like'] : ['looks', 'at']
return column === null ? `${who} ${verb} most ${link} ${best.map(at).join(', ') || 'nothing'}`
: `${who} ${verb} ${link} ${at(column)}`
}





function TokenList({
tokens: given, current = null, pinned = null, sure: chances, before, label, chips = false, onHover, onPick,
}) {
const list = useRef()
const [tokens, sure] = [useSame(given), useSame(chances)]
const marked = useRef({})
const buttons = useMemo(() => tokens.map(({ text, special }, at) => {
const names = `${special ? 'special' : ''}${sure?.[at] < SURE ? ' unsure' : ''}`
const title = sure?.[at] === undefined ? null : `probability ${percent(sure[at])}`
return html`<button type="button" tabindex="-1" data-at=${at} aria-pressed="false" class=${names} title=${title}
>${chips ? labelOf({ text }) : text}</button>`
}), [tokens, sure, chips])
useLayoutEffect(() => {
const all = list.current.querySelectorAll('[data-at]')
const mark = (name, at, on, off) => {
const [old, next] = [marked.current[name], all[at]]
if (old !== next) off(old ?? {})
if (next) on(next)
marked.current[name] = next
}
mark('current', current, (one) => (one.ariaCurrent = 'true'), (one) => (one.ariaCurrent = null))
mark('pinned', pinned, (one) => (one.ariaPressed = 'true'), (one) => (one.ariaPressed = 'false'))
mark('stop', current ?? pinned ?? 0, (one) => (one.tabIndex = 0), (one) => (one.tabIndex = -1))
}, [buttons, current, pinned])

const of = (event) => event.target.closest('[data-at]')
const hover = (event) => {
const at = of(event)?.dataset.at
if (at !== undefined && Number(at) !== current) onHover(Number(at))
}
const key = (event) => {
if (event.key === 'Escape') onPick(null)
else {
const next = stepTo(event, Number(of(event)?.dataset.at ?? 0), tokens.length)
if (next === undefined) return
list.current.querySelector(`[data-at="${next}"]`)?.focus()
}
event.preventDefault()
}
const named = tokens.every(({ span, special }) => !span && special === undefined)
const form = chips ? 'chips' : named ? 'named' : ''
return html`<div ref=${list} class=${`tokens ${form}`} role="group" aria-label=${label}
dir=${directionOf(tokens)}
onPointerOver=${hover} onfocusin=${hover} onPointerLeave=${() => onHover(null)}
onfocusout=${(event) => event.currentTarget.contains(event.relatedTarget) || onHover(null)}
onClick=${(event) => of(event) && onPick(Number(of(event).dataset.at))} onKeyDown=${key}>
${before && html`<span class="given">${before}</span>`}${buttons}
</div>`
}







function InPlace({
rows, columns: keys, values: given, signed = false, row = 0, pinned = null, text = null, pair = null,
sure, same = false, before = '', onHover = () => {}, onPick = () => {},
}) {
const box = useRef()
const [columns, values] = [useSame(keys), useSame(given)]
const both = columns.some(({ sequence }) => sequence)
const chips = same || text === null || (both && pair === null)
const { pieces, owners, second } = useMemo(
() => chips ? { pieces: columns, owners: [...columns.keys()] }
: both ? cutBoth(text, pair, columns) : cut([...text], columns), [chips, text, pair, columns])
const spans = useMemo(() => pieces.map(({ text: own, special }) =>
html`<span class=${special ? 'special' : ''}>${chips ? labelOf({ text: own }) : own}</span>`), [pieces, chips])
useLayoutEffect(() => {
const tinted = box.current.querySelectorAll(same ? '.tokens > [data-at]' : '.read > span')
const weights = values.subarray(row * columns.length, (row + 1) * columns.length)
const parts = shares(weights, owners, pieces.length, signed)
parts.forEach((part, at) => {
const style = tintOf(part, signed)
if (tinted[at].drawn !== style) tinted[at].style.cssText = tinted[at].drawn = style
})
}, [spans, values, row, signed, same])
return html`<div class="in-place" ref=${box}>
<${TokenList} key=${same} tokens=${rows} current=${row} pinned=${pinned} sure=${sure} before=${before} chips=${same}
label="Tokens; arrow keys move over them, Enter pins one" onHover=${onHover} onPick=${onPick} />
${!same && html`<p class=${`read${chips ? ' chips' : ''}`}
dir=${directionOf(columns)}>${spans.slice(0, second)}</p>`}
${second && html`<p class="read" dir=${directionOf(columns.filter(({ sequence }) => sequence))}>
${spans.slice(second)}</p>`}
</div>`
}

return { cut, shares, tintOf, readout, TokenList, InPlace }
})($canvas_js, $colours_js, $preact_js, $roving_js, $values_js)
const $matrix_js = (({ brushOf, painted, useDensity, useDrawing, useSame, useSize }, { opaque }, { html, useMemo, useRef }, { clamp, labelOf, logarithmic }) => {





const LARGEST = 28
const LABELLED = 12
const SCROLLED = 8
const FEW = 4
const LONGEST = 14
const UPRIGHT = 1
const [CHARACTER, MARGIN, PADDING] = [7, 10, 4]
const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }


function cellOf(width, columns, labels, density, rows = Infinity) {
const side = (room) => clamp(Math.floor((room / columns) * density) / density, 1, LARGEST)
const beside = side(width - labels)
const labelled = beside >= SCROLLED || rows <= FEW
return { cell: labelled ? Math.max(beside, LABELLED) : Math.min(side(width), LABELLED - 1), labelled }
}


function listenersOf({ canvas, high, wide, hovered, pinned, onHover, onPick, reveal }) {
const cellAt = ({ clientX, clientY }) => {
const bounds = canvas.current.getBoundingClientRect()
return {
row: clamp(Math.floor(((clientY - bounds.top) / bounds.height) * high), 0, high - 1),
column: clamp(Math.floor(((clientX - bounds.left) / bounds.width) * wide), 0, wide - 1),
}
}
const move = (event) => {
const { row, column } = cellAt(event)
if (row !== hovered?.row || column !== hovered?.column) onHover({ row, column })
}
const key = (event) => {
const { row = 0, column } = hovered ?? pinned ?? {}
if (event.key === 'Escape') onPick(null)
else if (event.key === 'Enter') onPick({ row, column: column ?? 0 })
else if (event.key in ARROWS) {
const [down, across] = ARROWS[event.key]
const next = { row: clamp(row + down, 0, high - 1), column: clamp((column ?? 0) + across, 0, wide - 1) }
onHover(next)
reveal(next)
} else return
event.preventDefault()
}
return {
onPointerMove: move,
onPointerLeave: () => onHover(null),
onClick: (event) => onPick(cellAt(event)),
onKeyDown: key,
}
}






function Matrix({
rows: queries, columns: keys, values: given, signed = false, top, colormap = 'viridis', log = false, zoom = 1,
hovered = null, pinned = null, onHover = () => {}, onPick = () => {}, label,
}) {
const box = useRef()
const canvas = useRef()
const { width: outer } = useSize(box)
const width = outer - 2 * PADDING
const density = useDensity()
const [rows, columns, values] = [useSame(queries), useSame(keys), useSame(given)]
const [high, wide] = [rows.length, columns.length]
const [left, right] = useMemo(() => [rows, columns].map((tokens) => tokens.map(labelOf)), [rows, columns])
const [margin, above] = useMemo(() => [left, right].map((texts) => {
const longest = texts.reduce((most, text) => Math.max(most, [...text].length), 0)
return Math.min(longest, LONGEST) * CHARACTER + MARGIN
}), [left, right])
const upright = above <= UPRIGHT * CHARACTER + MARGIN
const { cell, labelled } = cellOf(width * zoom, wide, margin, density, high)
useDrawing(() => {
const shown = log ? values.map((value) => Math.sign(value) * logarithmic(Math.abs(value) / top)) : values
const image = painted(shown, high, wide, opaque(colormap, signed), 0, log ? 1 : top, signed)
brushOf(canvas.current, wide, high).putImageData(image, 0, 0)
}, [values, high, wide, top, colormap, signed, log])

const reveal = ({ row, column }) => {
const area = box.current
const taken = (beside) => 2 * PADDING + (labelled ? beside : 0)
const near = (at, from, room) => clamp(from, at + 2 * cell - room, at - cell)
area.scrollLeft = near(column * cell, area.scrollLeft, area.clientWidth - taken(margin))
area.scrollTop = near(row * cell, area.scrollTop, area.clientHeight - taken(above))
}
const listeners = listenersOf({ canvas, high, wide, hovered, pinned, onHover, onPick, reveal })
const names = useMemo(() => {
const [beside, over] = [left, right].map((texts) => texts.map((text) => html`<span>${text}</span>`))
return labelled && html`
<div aria-hidden="true" class=${`matrix-columns${upright ? ' upright' : ''}`}>${over}</div>
<div aria-hidden="true" class="matrix-rows">${beside}</div>`
}, [labelled, upright, left, right])
const sizes = { '--cell': `${cell}px`, '--margin': `${margin}px`, '--above': `${above}px` }
const marks = [[pinned, 'pinned'], [hovered, 'hovered']].filter(([place]) => place && place.row < high)
return html`<div class=${`matrix${labelled ? ' labelled' : ''}`} ref=${box} style=${sizes}>
${names}
<div class="matrix-cells" tabindex="0" role="application"
aria-label=${`${label}, ${high} rows and ${wide} columns; arrow keys move over them`}
style=${{ width: `${wide * cell}px`, height: `${high * cell}px` }} ...${listeners}>
<canvas ref=${canvas} />
${marks.map(([{ row, column }, name]) => html`
<div class=${`mark line ${name}`} style=${{ top: `${row * cell}px`, height: `${cell}px` }} />
${column !== null && column < wide && html`<div class=${`mark ${name}`} style=${{
top: `${row * cell}px`, left: `${column * cell}px`, width: `${cell}px`, height: `${cell}px`,
}} />`}`)}
</div>
</div>`
}

return { cellOf, Matrix }
})($canvas_js, $colours_js, $preact_js, $values_js)
const $picture_js = (({ Boxes, objectAt }, { brushOf, meanColour, mixed, painted, smoothed, useDensity, useDrawing, useSame, useSize }, { translucent }, { html, useMemo, useRef, useState }, { clamp, lengthOf }) => {






const GREY = '#808080'
const [SEEN, UNSEEN] = ['#ccc', '#808080']
const FINEST = 448
const CRISP = 64
const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }


function frameOf({ width, height, box }) {
const [wide, high] = [box.right - box.left, box.bottom - box.top]
const left = Math.max(box.left - wide / 2, Math.min(box.left, 0))
const top = Math.max(box.top - high / 2, Math.min(box.top, 0))
const right = Math.min(box.right + wide / 2, Math.max(box.right, width))
const bottom = Math.min(box.bottom + high / 2, Math.max(box.bottom, height))
return { left, top, width: right - left, height: bottom - top }
}


const coldest = (cells) => cells.reduce((least, value) => Math.min(least, value), Infinity)


function makeGrey(brush, { width, height, box }) {
const paint = (operation, colour, add) => {
brush.globalCompositeOperation = operation
brush.fillStyle = colour
brush.beginPath()
brush.rect(0, 0, width, height)
add?.()
brush.fill('evenodd')
}
paint('saturation', GREY)
paint('multiply', SEEN)
const [left, top] = [clamp(box.left, 0, width), clamp(box.top, 0, height)]
const [right, bottom] = [clamp(box.right, 0, width), clamp(box.bottom, 0, height)]
paint('multiply', UNSEEN, () => brush.rect(left, top, right - left, bottom - top))
brush.globalCompositeOperation = 'source-over'
}


function drawGround(canvas, { image, source, grey }) {
const frame = frameOf(image)
const [scale, down] = [canvas.width / frame.width, canvas.height / frame.height]
const brush = canvas.getContext('2d')
brush.setTransform(1, 0, 0, 1, 0, 0)
brush.clearRect(0, 0, canvas.width, canvas.height)
brush.setTransform(scale, 0, 0, down, -frame.left * scale, -frame.top * down)
brush.fillStyle = 'white'
brush.fillRect(0, 0, image.width, image.height)
brush.imageSmoothingQuality = 'high'
if (source) {
brush.imageSmoothingEnabled = Math.max(image.width, image.height) > CRISP
brush.drawImage(source, 0, 0, image.width, image.height)
}
if (grey) makeGrey(brush, image)
return [brush, scale]
}

const JUDGED = 64


function groundOf({ image, source, grey }) {
const { box, width, height } = image
const frame = frameOf(image)
const canvas = new OffscreenCanvas(JUDGED, JUDGED)
canvas.getContext('2d', { willReadFrequently: true })
const [brush] = drawGround(canvas, { image, source, grey })
const across = (x) => Math.round(((clamp(x, 0, width) - frame.left) / frame.width) * JUDGED)
const down = (y) => Math.round(((clamp(y, 0, height) - frame.top) / frame.height) * JUDGED)
const [left, top] = [across(box.left), down(box.top)]
const [wide, high] = [Math.max(across(box.right) - left, 1), Math.max(down(box.bottom) - top, 1)]
return meanColour(brush.getImageData(left, top, wide, high))
}






function drawPicture(canvas, drawn) {
const { image, cells, colours, rows, columns, low, top, signed, colormap, opacity, smooth, grey } = drawn
const [brush, scale] = drawGround(canvas, { ...drawn, grey: grey && Boolean(cells ?? colours) })
if (!cells && !colours) return
const { left, top: above, right, bottom } = image.box
const [wide, high] = [right - left, bottom - above]
const fine = Math.min(scale, FINEST / Math.max(wide, high))
const [width, height] = smooth
? [Math.max(columns, Math.round(wide * fine)), Math.max(rows, Math.round(high * fine))] : [columns, rows]
const fitted = (values) => (smooth ? smoothed(values, rows, columns, height, width) : values)
const pixels = () => {
if (colours) return mixed(colours.map(fitted), height, width, opacity)
const ended = cells.map((value) => clamp(value, signed ? -top : low, top))
return painted(fitted(ended), height, width, translucent(colormap, signed, opacity), low, top, signed)
}
const heat = new OffscreenCanvas(width, height)
heat.getContext('2d').putImageData(pixels(), 0, 0)
brush.imageSmoothingEnabled = smooth
brush.drawImage(heat, left, above, wide, high)
}


function coveredBy(from, to, columns, covered) {
const between = (one, other) =>
Array.from({ length: Math.abs(one - other) + 1 }, (_, at) => Math.min(one, other) + at)
const [row, column] = [(cell) => Math.floor(cell / columns), (cell) => cell % columns]
const within = between(row(from), row(to)).flatMap((down) =>
between(column(from), column(to)).map((right) => down * columns + right))
const all = within.every((cell) => covered.includes(cell))
const rest = covered.filter((cell) => !within.includes(cell))
return all ? rest : [...rest, ...within].sort((one, other) => one - other)
}





function useCells({
rows, columns, query, hovered, covered, covering, onHover, onPick, onCover, objectIn, onObject, onPickObject,
}) {
const [drag, setDrag] = useState(null)
const dragged = useRef(false)
const covers = drag ? coveredBy(drag.from, drag.to, columns, covered) : covered
const placeOf = ({ clientX, clientY, currentTarget }) => {
const { left, top: above, width, height } = currentTarget.getBoundingClientRect()
return [(clientX - left) / width, (clientY - above) / height]
}
const cellAt = (event) => {
const [across, down] = placeOf(event)
const row = clamp(Math.floor(down * rows), 0, rows - 1)
return row * columns + clamp(Math.floor(across * columns), 0, columns - 1)
}
const middleOf = (cell) => [((cell % columns) + 0.5) / columns, (Math.floor(cell / columns) + 0.5) / rows]
const pick = (cell, place) => {
const object = onPickObject ? objectIn(...place) : null
if (object === null) onPick(cell)
else onPickObject(object)
}
const move = (event) => {
const cell = cellAt(event)
onObject(objectIn(...placeOf(event)))
if (drag && drag.to !== cell) setDrag({ ...drag, to: cell })
if (cell !== hovered) onHover(cell)
}
const press = (event) => {
dragged.current = false
if (!onCover || event.button || !(event.shiftKey || covering)) return
event.preventDefault()
event.currentTarget.focus()
event.currentTarget.setPointerCapture(event.pointerId)
setDrag({ from: cellAt(event), to: cellAt(event) })
}
const release = () => {
if (drag) onCover(covers)
dragged.current = Boolean(drag)
setDrag(null)
}
const key = (event) => {
const at = hovered ?? query ?? 0
if (event.ctrlKey || event.metaKey || event.altKey) return
if (event.key === 'Escape') {
if (drag) setDrag(null)
else (onPickObject ?? onPick)(null)
} else if (event.key === 'Enter') pick(at, middleOf(at))
else if (event.key === 'c' && onCover) onCover(coveredBy(at, at, columns, covered))
else if (event.key in ARROWS) {
const [down, right] = ARROWS[event.key]
const row = clamp(Math.floor(at / columns) + down, 0, rows - 1)
const next = row * columns + clamp((at % columns) + right, 0, columns - 1)
onHover(next)
onObject(objectIn(...middleOf(next)))
} else return
event.preventDefault()
}
return [covers, {
onPointerMove: move,
onPointerLeave: () => (onHover(null), onObject(null)),
onPointerDown: press,
onPointerUp: release,
onPointerCancel: () => setDrag(null),
onKeyDown: key,
onBlur: () => (onHover(null), onObject(null)),
onClick: (event) => dragged.current || event.shiftKey || covering ? null : pick(cellAt(event), placeOf(event)),
}]
}









function Picture({
image, source, cells: given = null, colours = null, rows, columns, low, top, signed = false, colormap = 'viridis',
opacity = 0.8, smooth = true, grey = true, query = null, hovered = null, covered = [], covering = false, label,
onHover = () => {}, onPick = () => {}, onCover, objects = [], marked, pinned, onObject = () => {}, onPickObject,
}) {
const canvas = useRef()
const cells = useSame(given)
const size = useSize(canvas)
const density = useDensity()
const frame = frameOf(image)
const { box } = image
const least = useMemo(() => low ?? (cells ? coldest(cells) : 0), [cells, low])
useDrawing(() => {
if (!size.width) return
brushOf(canvas.current, Math.round(size.width * density), Math.round(size.height * density))
drawPicture(canvas.current, {
image, source, cells, colours, rows, columns, low: least, top, signed, colormap, opacity, smooth, grey,
})
}, [size, density, source, cells, colours, rows, columns, least, top, signed, colormap, opacity, smooth, grey,
image.width, image.height, box.left, box.top, box.right, box.bottom])

const objectIn = (across, down) => objectAt(
objects, box.left + across * (box.right - box.left), box.top + down * (box.bottom - box.top))
const [hidden, listeners] = useCells({
rows, columns, query, hovered, covered, covering, onHover, onPick, onCover, objectIn, onObject, onPickObject,
})
const mark = (cell, name) => html`<div class=${`mark ${name}`} style=${{
left: lengthOf((cell % columns) / columns),
top: lengthOf(Math.floor(cell / columns) / rows),
width: lengthOf(1 / columns),
height: lengthOf(1 / rows),
}} />`
const ratio = frame.width / frame.height
return html`<div class="picture" style=${{ aspectRatio: String(ratio), maxWidth: `calc(75vh * ${ratio})` }}>
<canvas ref=${canvas} />
<div class=${`cells${covering ? ' covering' : ''}`} tabindex="0" role="application" aria-label=${label}
aria-keyshortcuts=${onCover ? 'Enter Escape c' : 'Enter Escape'}
style=${{
left: lengthOf((box.left - frame.left) / frame.width),
top: lengthOf((box.top - frame.top) / frame.height),
width: lengthOf((box.right - box.left) / frame.width),
height: lengthOf((box.bottom - box.top) / frame.height),
}}
...${listeners}>
${hidden.map((cell) => mark(cell, 'covered'))}
${query !== null && mark(query, 'query')}
${hovered !== null && mark(hovered, 'hovered')}
</div>
${objects.length > 0 && html`<${Boxes} objects=${objects} frame=${frame} marked=${marked} pinned=${pinned} />`}
</div>`
}

return { frameOf, coldest, groundOf, drawPicture, Picture }
})($boxes_js, $canvas_js, $colours_js, $preact_js, $values_js)
const $spans_js = (({ Marked }, { html }, { Ranked }) => {





function apart(answers, first) {
const order = [...answers].sort((one, other) => (other.object === first) - (one.object === first))
const over = (one, { start, end }) => one.start < end && start < one.end
return order.reduce((kept, one) =>
(one.start === one.end || kept.some((other) => over(one, other)) ? kept : [...kept, one]), [])
}


function Spans({ results: [{ answers, context }], before, objects }) {
const ranked = (some) => some?.map(({ object, text, score }) => ({ object, text, share: score }))
const marks = apart(answers, objects.shown).map((one) =>
({ ...one, label: String(one.object + 1), probability: one.score }))
return html`
<${Marked} results=${[{ entities: marks, text: context }]} objects=${objects} what="Answers" />
<${Ranked} results=${[{ ranked: ranked(answers) }]} before=${before && [{ ranked: ranked(before[0].answers) }]}
objects=${objects} />`
}

return { apart, Spans }
})($marked_js, $preact_js, $ranked_js)
const $span_tasks_js = (({ html }, { Select }, { CLASSES, later, rowOf }) => {





const entityOf = ({ object, aggregate }) =>
({ ...(object !== '' && { target: Number(object) }), ...(aggregate && { aggregate }) })


const ENTITIES = {
...CLASSES,
field: 'entities',
View: later('Marked'),
Options: ({ selection, change }) => html`<${Select} words="Tokens become entities" name="aggregate"
values=${AGGREGATES} chosen=${selection.aggregate}
choose=${(aggregate) => change({ aggregate, object: '' })} />`,
options: (model, { aggregate }) => (aggregate ? { aggregate } : {}),
read: ({ results: [{ entities, ...rest }] }, { text }) =>
[{ ...rest, text, entities: entities.map((one, object) => ({ ...one, object })) }],
items: ({ entities }) => [...entities].sort((one, other) => other.probability - one.probability),
prints: ['for one in answer.entities:', '    print(one.label, one.text)'],
explained: (model, selection) => entityOf(selection),
scored: (model, selection, { queries, about = 0 }) => ({
...entityOf(selection),
...(queries !== undefined && { queries: selection.row === '' ? about : rowOf(selection) }),
}),
named: ({ entities }, { entity, label }) => entities?.[entity]?.text ?? label,
best: ({ entities }) => ({
name: entities.map(({ text, label }) => `${text} (${label})`).join(', ') || 'nothing',
share: entities.length ? Math.min(...entities.map(({ probability }) => probability)) : undefined,
}),
said({ entities }) {
return entities.length ? `${entities.length} entities: ${this.best({ entities }).name}` : 'Nothing found'
},
}

const ANSWERS = {
...CLASSES,
field: 'answers',
View: later('Spans'),
first: 'Question',
second: 'Context',
needs: true,
rows: 6,
options: () => ({ top_k: MOST_ANSWERS }),
asks: (question, context) => ({ inputs: { question, context } }),
read: ({ results: [{ answers, ...rest }] }, { pair }) =>
[{ ...rest, context: pair, answers: answers.map((one, object) => ({ ...one, object })) }],
items: ({ answers }) => answers,
prints: ['for one in answer.answers:', '    print(one.score, one.text)'],
explained: (model, { object }) => ({ target: Number(object) }),
scored: (model, selection, { queries }) => ({
target: { answer: Number(selection.object), part: rowOf(selection) ? 'end' : 'start' },
...(queries !== undefined && { queries: rowOf(selection) }),
}),
named: (result, { part = 'answer' }) => `the ${part}`,
best: ({ answers: [best] }) => best && { name: best.text, share: best.score },
}
const MOST_ANSWERS = 3
const AGGREGATES = [
['', 'by B- and I-'], ['none', 'each alone'], ['first', 'words, by the first token'],
['average', 'words, by the mean'], ['max', 'words, by the surest token'],
]

return { ENTITIES, ANSWERS }
})($preact_js, $select_js, $task_js)
const $lines_js = (({ useSame }, { AGAINST, FOR }, { html, useLayoutEffect, useMemo, useRef }, { labelOf, largest }, { TokenList }) => {






const [PITCH, WIDEST] = [24, 60]
const MOST = 4000
const MOST_OF_ROW = 300
const FAINTEST = 0.01
const BINS = 4096
const DEEPEST = 0.6






function strongest(series, rows, columns, least, top, most, only = null) {
const [start, end] = only === null ? [0, rows * columns] : [only * columns, (only + 1) * columns]
const counts = new Uint32Array(BINS + 1)
const [threshold, scale] = [least * top, BINS / top]
for (const { values } of series) {
for (let at = start; at < end; at++) {
const size = Math.abs(values[at])
if (size > threshold) counts[Math.min(size * scale, BINS) | 0]++
}
}
let [edge, left] = [BINS, most]
while (edge > 0 && counts[edge] <= left) left -= counts[edge--]
const lines = []
series.forEach(({ values }, which) => {
for (let at = start; at < end; at++) {
const size = Math.abs(values[at])
if (!(size > threshold)) continue
const step = Math.min(size * scale, BINS) | 0
if (step < edge || (step === edge && left-- <= 0)) continue
lines.push({ row: Math.floor(at / columns), column: at % columns, series: which, value: values[at] })
}
})
return { lines, count: counts.reduce((sum, count) => sum + count, 0) }
}


const faded = (colour, share) => `${colour}${Math.round(255 * Math.min(share, 1)).toString(16).padStart(2, '0')}`






function Lines({
rows, columns: keys, series: given, pinned = null, hovered = null, onHover, onPick, least = 0.1,
}) {
const list = useRef()
const columns = useSame(keys)
const series = useSame(given, (one, other) =>
one.values === other.values && one.colour === other.colour && one.signed === other.signed)
const active = hovered ?? pinned
const [high, wide] = [rows.length, columns.length]
const top = useMemo(() => Math.max(...series.map(({ values }) => largest(values, true)), 0), [series])
const height = Math.max(high, wide) * PITCH
const [down, across] = [high, wide].map((count) => Math.min(height / count, WIDEST))
const path = ({ row, column, series: which, value }, of) => {
const [from, to] = [(row + 0.5) * down, (column + 0.5) * across]
return html`<path d=${`M0 ${from}C50 ${from} 50 ${to} 100 ${to}`} stroke=${colourOf(series, which, value)}
stroke-opacity=${Math.min(Math.abs(value) / of, 1).toFixed(2)} stroke-dasharray=${dashed(series, value)} />`
}
const [all, count] = useMemo(() => {
const found = strongest(series, high, wide, least, top, MOST)
return [html`<g>${found.lines.map((line) => path(line, top))}</g>`, found.count]
}, [series, high, wide, least, top])
const row = active !== null && active < high ? active : null
const [own, blocks] = useMemo(() => {
if (row === null) return [null, new Map()]
const weights = series.map(({ values }) => values.subarray(row * wide, (row + 1) * wide))
const most = Math.max(...weights.map((own) => largest(own, true)))
const { lines } = strongest(series, high, wide, FAINTEST, most, MOST_OF_ROW, row)
const part = 100 / series.length
return [lines.map((line) => path(line, most)), new Map(lines.map(({ column }) => {
const stops = weights.map((own, which) => {
const colour = faded(colourOf(series, which, own[column]), (DEEPEST * Math.abs(own[column])) / most)
return `${colour} ${which * part}% ${(which + 1) * part}%`
})
return [column, `linear-gradient(to right, ${stops})`]
}))]
}, [series, high, wide, row])
useLayoutEffect(() => {
const labels = list.current.children
blocks.forEach((block, column) => (labels[column].style.backgroundImage = block))
return () => blocks.forEach((_, column) => labels[column]?.style.removeProperty('background-image'))
}, [blocks, columns])

const labels = useMemo(() => columns.map((token) =>
html`<li class=${token.special ? 'special' : ''}>${labelOf(token)}</li>`), [columns])
return html`<div class="lines">
<div class="lines-scroll" style=${{ '--rows': `${down}px`, '--columns': `${across}px` }}>
<${TokenList} tokens=${rows} current=${active} pinned=${pinned} chips
label="Tokens that look; arrow keys move over them, Enter pins one" onHover=${onHover} onPick=${onPick} />
<svg viewBox=${`0 0 100 ${height}`} height=${height} preserveAspectRatio="none" aria-hidden="true">
<g visibility=${own ? 'hidden' : 'visible'}>${all}</g><g>${own}</g>
</svg>
<ol ref=${list} aria-label="Tokens that are looked at">${labels}</ol>
</div>
${count > MOST && html`<small>The ${MOST} largest of ${count} lines are drawn.</small>`}
</div>`
}


function colourOf(series, which, value) {
const { colour, signed } = series[which]
return signed && series.length === 1 ? (value < 0 ? AGAINST : FOR) : colour
}

const dashed = (series, value) => (value < 0 && series.length > 1 ? '4 3' : null)

return { strongest, Lines }
})($canvas_js, $colours_js, $preact_js, $values_js, $tokens_js)
const $legend_js = (({ brushOf, painted, useDrawing }, { opaque, translucent }, { groundOf }, { html, useRef }, { DECADES, figure }) => {






const LEVELS = Float32Array.from({ length: 256 }, (_, at) => at / 255)
const SIGNED_LEVELS = LEVELS.map((share) => 2 * share - 1)


function logarithmicAt(part, top, signed) {
const place = signed ? 2 * part - 1 : part
return place ? Math.sign(place) * top * 10 ** (DECADES * (Math.abs(place) - 1)) : 0
}






function Legend({
top, signed, colormap, low = 0, explains = false, above = 0, most = top, share = false, over = null,
opacity = 1, log = false,
}) {
const canvas = useRef()
useDrawing(() => {
const table = over ? translucent(colormap, signed, opacity) : opaque(colormap, signed)
const heat = new OffscreenCanvas(256, 1)
heat.getContext('2d').putImageData(painted(signed ? SIGNED_LEVELS : LEVELS, 1, 256, table, 0, 1, signed), 0, 0)
const brush = brushOf(canvas.current, 256, 1)
brush.fillStyle = over ? groundOf(over) : 'white'
brush.fillRect(0, 0, 256, 1)
brush.drawImage(heat, 0, 0)
}, [signed, colormap, over?.image, over?.source, over?.grey, opacity])
const least = signed ? -top : low
const at = (part) => (log ? logarithmicAt(part, top, signed) : least + part * (top - least))
const numbers = [0, 0.25, 0.5, 0.75, 1].map((part) => figure(at(part), share))
if (above) numbers[4] = `≥ ${numbers[4]}`
return html`<div class="legend" role="img" aria-label=${`Colours from ${numbers[0]} to ${numbers[4]}`}>
<canvas ref=${canvas} />
<div>${numbers.map((number) => html`<span>${number}</span>`)}</div>
${above > 0 && html`<small>
${above} ${above === 1 ? 'patch is' : 'patches are'} above, up to ${figure(most, share)}
</small>`}
${signed && explains && html`<div><span>against it</span><span>for it</span></div>`}
</div>`
}

return { Legend }
})($canvas_js, $colours_js, $picture_js, $preact_js, $values_js)
const $heads_js = (({ brushOf, painted, pooled, useDrawing }, { opaque }, { html, useMemo, useRef, useState }, { coldest }, { clamp, endOf, entropy, headOf, largest, range, rowOf, short }) => {






const NONE = []
const SIDE = 96


function figuresOf(name, maps, figures) {
const layerOf = (map, at) => map.layer ?? at
if (figures?.[name]) return maps.map((map, at) => figures[name][layerOf(map, at)])
if (name !== 'entropy') return null
const own = (map, head) => entropy(headOf(map, head), map.queries, map.keys)
return maps.map((map) => range(map.heads).map((head) => own(map, head)))
}


function shownOf(map, head, grid, prefix, query) {
if (!grid) return pooled(headOf(map, head), map.queries, map.keys, SIDE, map.signed)
const { rows, columns } = map.grid ?? grid
const patches = (row) => rowOf(map, head, row).subarray(prefix, prefix + rows * columns)
if (query !== null) return { values: patches(Math.min(query, map.queries - 1)), rows, columns }
const values = new Float32Array(rows * columns)
for (let row = 0; row < map.queries; row++) {
patches(row).forEach((value, at) => (values[at] += value / map.queries))
}
return { values, rows, columns }
}


function nextOf(key, at, across, count) {
const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across, Home: -at, End: count }
if (!(key in steps)) return undefined
const next = at + steps[key]
const beyond = Math.abs(steps[key]) === across && (next < 0 || next >= count)
return beyond ? at : clamp(next, 0, count - 1)
}








function HeadGrid({
maps, order = 'index', figures = null, chosen, onChoose, grid = null, prefix = 0, query = 0, colormap = 'viridis',
own = false, special = NONE,
}) {
const box = useRef()
const [focused, setFocused] = useState(null)
const figure = order === 'index' ? 'entropy' : order
const numbers = useMemo(() => figuresOf(figure, maps, figures), [figure, maps, figures])
const heads = useMemo(() => {
const all = maps.flatMap((map, at) => range(map.heads).map((head) => ({
map, head, layer: map.layer ?? at, number: numbers?.[at][head] ?? null,
})))
return order === 'index' ? all : all.sort((one, other) => one.number - other.number)
}, [maps, order, numbers])

useDrawing(() => {
const shown = heads.map(({ map, head }) => ({ ...shownOf(map, head, grid, prefix, query), signed: map.signed }))
const ordinary = (values, { keys }) => values.filter((_, at) => !special[at % keys])
const tops = shown.map(({ values, signed }, at) => {
if (grid) return endOf(values, signed)
const { map, head } = heads[at]
const own = special.some(Boolean) ? ordinary(headOf(map, head), map) : values
return largest(own.length ? own : values, signed)
})
const top = Math.max(...tops)
box.current.querySelectorAll('canvas').forEach((canvas, at) => {
const { values, rows, columns, signed } = shown[at]
const low = grid && own ? coldest(values) : 0
const image = painted(values, rows, columns, opaque(colormap, signed), low, own ? tops[at] : top, signed)
brushOf(canvas, columns, rows).putImageData(image, 0, 0)
})
}, [heads, grid?.rows, grid?.columns, prefix, query, colormap, own, special])

const [{ queries, keys }] = maps
const ratio = grid ? grid.columns / grid.rows : clamp(keys / queries, 0.5, 2)
const place = heads.findIndex(({ layer, head }) => layer === chosen?.layer && head === chosen?.head)
const stop = clamp(focused ?? Math.max(place, 0), 0, heads.length - 1)
const thumbnail = ({ layer, head, number }, at) => {
const seen = `L${layer} H${head}${number !== null ? `, ${short(number)}` : ''}` // speech control hears what is seen
const named = `layer ${layer}, head ${head}${number === null ? '' : `, ${figure} ${short(number)}`}`
const name = order === 'index' ? named.replace('l', 'L') : `${seen}: ${named}`
return html`<button type="button" class="thumbnail" aria-label=${name} title=${name}
aria-pressed=${String(at === place)} tabindex=${at === stop ? 0 : -1} onFocus=${() => setFocused(at)}
onClick=${() => onChoose({ layer, head })}>
<canvas style=${{ aspectRatio: String(ratio) }} />
${order !== 'index' && html`<small>${seen}</small>`}
</button>`
}
const key = (event) => {
const buttons = [...box.current.querySelectorAll('button')]
const top = ({ offsetTop }) => offsetTop
const across = order === 'index' ? heads[0].map.heads : buttons.filter((one) => top(one) === top(buttons[0])).length
const next = nextOf(event.key, stop, across, heads.length)
if (next === undefined) return
event.preventDefault()
buttons[next].focus()
}

const most = Math.max(...maps.map((map) => map.heads))
let at = 0
return html`<div class="heads" ref=${box} role="group" aria-label="Every head of every layer" onKeyDown=${key}>
${order === 'index' ? html`<table style=${{ maxWidth: `${9.4 * most + 1.6}rem` }}>
<thead><tr><td />${range(most).map((head) => html`
<th scope="col" key=${head}><span class="hidden-words">head </span>${head}</th>`)}</tr></thead>
<tbody>${maps.map((map, layer) => html`<tr key=${layer}>
<th scope="row"><span class="hidden-words">layer </span>${map.layer ?? layer}</th>
${range(map.heads).map((head) => html`<td key=${head}>${thumbnail(heads[at], at++)}</td>`)}
</tr>`)}</tbody>
</table>` : html`<ol>${heads.map((one, place) => html`
<li key=${`${one.layer} ${one.head}`}>${thumbnail(one, place)}</li>`)}</ol>`}
</div>`
}

return { HeadGrid }
})($canvas_js, $colours_js, $preact_js, $picture_js, $values_js)
const $tasks_js = (({ GenerationOptions, Masks, Vector, Words, Written }, { generationOf }, { Found, Threshold }, { html }, { ANSWERS, ENTITIES }, { CLASSES, later, rowOf }, { HEARD }, { cosine, linesOf, percent, short }, { RATHER }) => {











const thresholdOf = (model, { threshold }) => (threshold === '' ? model.detection?.threshold : Number(threshold))


const objectOf = (model, { object }) =>
(object !== '' && Number(object) < model.detection.objects ? { target: Number(object) } : {})


function maskOf(model, selection, { explains, rows, masks }) {
const row = Number(selection.row)
if (explains) return row < masks ? row : 0
const within = (some) => some.map(({ text }) => text).join('').split(model.inputs.mask).length - 1
return within(rows.slice(row, row + 1)) ? within(rows.slice(0, row)) : 0
}

const OBJECTS = {
...CLASSES,
field: 'objects',
View: Found,
Options: ({ model, selection, change }) => html`
<${Threshold} least=${thresholdOf(model, selection)} choose=${(threshold) => change({ threshold })} />`,
options: (model, { threshold }) => (threshold === '' ? {} : { threshold: Number(threshold) }),
prints: ['for found in answer.objects:', '    print(found.label, found.box)'],
explained: objectOf,
scored: (model, selection, { queries }) =>
({ ...objectOf(model, selection), ...(queries !== undefined && { queries }) }),
named: ({ objects }, { object }) => objects?.find((one) => one.object === object)?.label,
best: ({ objects = [] }) => ({
name: objects.map(({ label }) => label).join(', ') || 'nothing',
share: objects.length ? Math.min(...objects.map(({ probability }) => probability)) : undefined,
}),
said: ({ objects = [] }) => (objects.length
? `${objects.length} objects: ${objects.map(({ label }) => label).join(', ')}` : 'Nothing found'),
}

const againstOf = (model, { pair, against }) => ({ against: model.inputs.width ? { id: against } : { text: pair } })


function likenessOf(model, selection, method) {
const { against } = againstOf(model, selection)
const third = againstOf(model, { pair: selection.than, against: selection.rather }).against
const rather = RATHER.includes(method) && (third.id || third.text)
return rather ? { against: [against, third] } : { against, sides: 'both' }
}


function shownOf(items, answer, { object }) {
const { id, pair, rival } = items.find((one) => String(one.object) === object) ?? items[0] ?? {}
return id ? { ...answer, id, input: { ...answer.input, pair, rival } } : answer
}


function together(examples) {
const texts = Map.groupBy(examples.filter((one) => one.text_pair), ({ text }) => text)
return [...texts].map(([text, some]) => ({ text, text_pair: some.map((one) => one.text_pair).join('\n') }))
}
const VECTOR = {
...CLASSES,
field: 'embedding',
View: Vector,
compares: true,
lines: true,
rows: 4,
examples: (examples) => (examples.some((one) => one.image || !one.text_pair) ? examples : together(examples)),
asks: (text, others) => ({ inputs: others.trim() ? [text, ...linesOf(others)] : text }),
read({ results: [result, ...others] }, { pair }) {
const item = ({ embedding }, object) => {
const [score, text] = [cosine(result.embedding, embedding), linesOf(pair)[object]]
return { object, id: result.id, score, part: Math.max(score, 0), text, pair: text }
}
return [{ ...result, alike: others.map(item).sort((one, other) => other.score - one.score) }]
},
items: ({ alike = [] }) => alike,
shown: (answer, selection) => shownOf(answer.results[0].alike, answer, selection),
explained: likenessOf,
scored: againstOf,
best: () => null,
said: ({ embedding, alike: [first] = [] }) => (first ? `Most like it, at ${short(first.score)}: ${first.text}`
: embedding && `A vector of ${embedding.length} numbers`),
}
const WORDS = {
...CLASSES,
field: 'words',
View: Words,
options: () => ({ top_k: MOST_WORDS }),
prints: ['for one in answer.words:', '    print(one.weight, one.text)'],
named: ({ words }, { target }) => words?.find(({ token }) => token === target)?.text,
best: ({ words: [best] = [] }) => best && { name: best.text, score: best.weight },
}
const MOST_WORDS = 20
const MASKS = {
...CLASSES,
field: 'candidates',
View: Masks,
scored: (model, selection, { queries, ...seen }) => // the row of the mask is among all
({ target: maskOf(model, selection, seen), ...(queries !== undefined && { queries: 'all' }) }),
named: ({ candidates }, { mask = 0, target }) => {
const word = candidates?.[mask]?.find(({ token }) => token === target)?.text.trim()
return candidates?.length > 1 ? `${word ?? ''} (mask ${mask + 1})`.trim() : word
},
best: ({ candidates = [] }) => ({
name: candidates.map(([best]) => best.text.trim()).join(', '),
share: candidates.length ? Math.min(...candidates.map(([best]) => best.probability)) : undefined,
}),
}
const WRITTEN = {
...CLASSES,
field: 'tokens',
View: Written,
Options: GenerationOptions,
streams: true,
options: generationOf,
scored: (model, selection) => ({ target: rowOf(selection) }),
named: ({ tokens }, evaluation, selection) => tokens?.[rowOf(selection)]?.text,
best: ({ text, tokens = [] }) => ({
name: text,
share: tokens.length ? Math.min(...tokens.map(({ log_probability: log }) => Math.exp(log))) : undefined,
}),
said: ({ text }) => text ?? '',
}
const RANKED = {
...CLASSES,
field: 'ranked',
View: later('Ranked'),
items: ({ ranked = [] }) => ranked,
shown: (answer, selection) => shownOf(answer.results[0].ranked ?? [], answer, selection),
}
const RANKING = {
...RANKED,
endpoint: 'rerank',
title: 'Which passages answer the query?',
first: 'Query',
second: 'Passages, one a line',
needs: true,
lines: true,
rows: 6,
row: 'score',
examples: together,
asks: (query, passages) => ({ query, texts: linesOf(passages), truncate: true }),
read({ results }, { pair }) {
const texts = linesOf(pair)
const passage = ({ id, index, score }) => ({ object: index, id, score, text: texts[index], pair: texts[index] })
return [{ ranked: results.map(passage) }]
},
named: () => 'the score',
prints: ['for one in ranked:', '    print(one.score, one.text)'],
best: ({ ranked: [best] }) => ({ name: best.text, score: best.score }),
said: ({ ranked }) => `Of ${ranked.length} the best, at ${short(ranked[0].score)}: ${ranked[0].text}`,
}
const PAIRS = {
...CLASSES,
second: 'Second text, for a model of pairs',
inputs: (text, pair) => ({ text, text_pair: pair }),
}
const TEMPLATE = 'This example is {}.'
const WORDING = 'This is a photo of {}.'


const sentenceOf = (label, template) => (label === undefined ? '' : template.replace('{}', () => label))

const CHOOSING = {
...PAIRS,
title: 'Does the second text follow from the first, or which label fits?',
items: RANKED.items,
shown: RANKED.shown,
Options: later('Labels'),
options: (model, { labels, template, multi }) => (labels
? { labels: labels.split('\n'), ...(template && { template }), ...(multi && { multi_label: true }) } : {}),
asks: (text, pair, { labels }) => labels && { inputs: text },
read({ id, results: [result] }, input, { labels, template = TEMPLATE }) {
const choice = ({ index, label, probability }) => ({
object: index, id: labels.length > 1 ? `${id}.${index}` : id, share: probability, text: label,
pair: sentenceOf(label, template),
})
return [labels ? { ranked: result.labels.map(choice) } : result]
},
explained: (model, selection, method) => (selection.labels ? {} : CLASSES.explained(model, selection, method)),
named: ({ ranked, labels }, { target }, { object }) => (ranked
? (ranked.find((one) => String(one.object) === object) ?? ranked[0]).text
: CLASSES.named({ labels }, { target })),
best: ({ ranked, labels }) => (ranked ? { name: ranked[0].text, share: ranked[0].share } : CLASSES.best({ labels })),
}

const LABELLED = {
...VECTOR,
title: 'Which label fits, and where is it seen?',
chooses: true,
Options: later('Labels'),
options: (model, { labels, template }) =>
(labels ? { labels: labels.replaceAll('\n', ','), ...(template && { template }) } : {}),
items: RANKED.items,
read({ id, results: [result] }, input, { labels, template = WORDING }) {
if (!labels) return [result]
const choice = ({ index, label, probability }, at) => ({
object: index, id, share: probability, text: label, pair: sentenceOf(label, template),
rival: sentenceOf(result.labels[at ? 0 : 1]?.label, template),
})
return [{ ...result, labels: undefined, ranked: result.labels.map(choice) }]
},
shown: (answer, selection) => shownOf(answer.results[0].ranked ?? [], answer, selection),
explained(model, selection, method) {
const { pair, rival, labels, template, apart } = selection
if (!labels) return likenessOf(model, selection, method)
const against = { text: pair || sentenceOf(labels.split('\n')[0], template || WORDING) }
if (apart && rival && RATHER.includes(method)) return { against: [against, { text: rival }] }
return { against, sides: 'both' }
},
scored: (model, selection) =>
(selection.labels ? { against: { text: selection.pair } } : againstOf(model, selection)),
named: CHOOSING.named,
best: CHOOSING.best,
said: ({ ranked, ...rest }) => (ranked ? `${ranked[0].text}, ${percent(ranked[0].share)}` : VECTOR.said(rest)),
}

const TASKS = {
'automatic-speech-recognition': { ...CLASSES, ...HEARD, View: later('Heard'), title: 'What is said?' },
'audio-classification': { ...CLASSES, title: 'What is heard?' },
'image-classification': { ...CLASSES, title: 'What is in the image?' },
'graph-classification': { ...CLASSES, title: 'What kind of graph is it?' },
'object-detection': { ...OBJECTS, title: 'What is where in the image?' },
'text-classification': { ...PAIRS, title: 'What kind of text is it?' },
'token-classification': { ...ENTITIES, title: 'What is named in the text?' },
'question-answering': { ...ANSWERS, title: 'What answers the question?' },
'feature-extraction': { ...VECTOR, title: 'What is it like?', second: 'Texts to compare, one a line' },
'sparse-embedding': { ...WORDS, title: 'What is the text about?' },
'fill-mask': { ...MASKS, title: 'What is behind the mask?' },
'text-generation': { ...WRITTEN, title: 'How does the text go on?' },
'text2text-generation': { ...WRITTEN, title: 'What becomes of the text?' },
'image-to-text': { ...WRITTEN, title: 'What are the words for the image?' },
}


function taskOf({ task, endpoints, zero_shot: chooses, contrast, inputs }) {
if (endpoints?.includes(RANKING.endpoint)) return RANKING
if (contrast && inputs.width) return LABELLED
return chooses ? CHOOSING : TASKS[task] ?? { ...CLASSES, title: task }
}


const viewOf = (result) => [RANKED, ...Object.values(TASKS)].find(({ field }) => result[field])?.View

return { thresholdOf, taskOf, viewOf }
})($answer_js, $generation_js, $objects_js, $preact_js, $span_tasks_js, $task_js, $transcript_js, $values_js, $words_js)
const $graph_drawing_js = (({ AGAINST, levels, paletteOf }, { Legend }, { strongest }, { html, useMemo, useRef }, { stepTo }, { largest, rowOrMean, short }) => {








const SIDE = 480
const [MARGIN, RADIUS, THICKEST, ARROW] = [0.1, 0.028, 0.025, 0.018].map((share) => share * SIDE)
const CROWDED = 40
const LEAST_SHARE = 0.02
const LINK = '#ffbe78'
const TYPES = ['#787878', '#1f77b4', '#2ca02c', '#9467bd', '#d62728', '#8c564b']
const MOST = 1000
const LONGEST = 16

const colourOf = (type) => TYPES[type % TYPES.length]
const shortened = (name) => (name.length > LONGEST ? `${name.slice(0, LONGEST - 1)}…` : name)


const placesOf = (tokens, places) => tokens.map(({ node }) =>
(node === undefined ? [MARGIN / 2, MARGIN / 2] : places[node].map((share) => MARGIN + (SIDE - 2 * MARGIN) * share)))


const findIn = (tokens, { node }) => {
const at = tokens.findIndex((one) => one.name !== undefined && one.node === node)
return at < 0 ? null : at
}





function linesOf({ rows, columns }, values, only) {
const from = rows.map((row) => findIn(columns, row))
const shown = (row, column) => from[row] !== null && from[row] !== column
&& (only === null ? ![rows[row], columns[column]].some(({ node }) => node === undefined) : row === only)
const between = values.map((value, at) =>
(shown(Math.floor(at / columns.length), at % columns.length) ? value : 0))
const most = largest(between, true)
const { lines } = strongest([{ values: between }], rows.length, columns.length, LEAST_SHARE, most, MOST)
return lines.sort((one, other) => Math.abs(one.value) - Math.abs(other.value)).map(({ row, column, value }) =>
({ from: from[row], to: column, value, width: Math.max(1, (THICKEST * Math.abs(value)) / most) }))
}


function arrowOf([x, y], [ownX, ownY], radius) {
const far = Math.hypot(ownX - x, ownY - y) || 1
const [across, down] = [(ownX - x) / far, (ownY - y) / far]
const at = (back, aside) => [ownX - back * across - aside * down, ownY - back * down + aside * across]
const [tip, ...sides] = [[radius, 0], [radius + ARROW, ARROW / 3], [radius + ARROW, -ARROW / 3]].map((one) =>
at(...one).map((place) => place.toFixed(1)).join(' '))
return `M${tip}L${sides.join('L')}Z`
}


function Edge({ from, to, type, directed, radius }) {
const colour = colourOf(type)
if (from === to) {
return html`<circle cx=${to[0]} cy=${to[1] - 1.5 * radius} r=${radius} fill="none" stroke=${colour} />`
}
return html`<g stroke=${colour} stroke-width="1.5">
<line x1=${from[0]} y1=${from[1]} x2=${to[0]} y2=${to[1]} />
${directed && html`<path d=${arrowOf(from, to, radius)} fill=${colour} stroke="none" />`}
</g>`
}


function edgesOf(columns, places, { edges, directed }, radius) {
const of = new Map(columns.map(({ node }, at) => [node, places[at]]))
return edges.filter((ends) => of.has(ends[0]) && of.has(ends[1])).map(([from, to, type]) => html`<${Edge}
from=${of.get(from)} to=${of.get(to)} type=${type} directed=${directed} radius=${radius} />`)
}


function Node({ at, name, label, place, radius, colour, stop, pressed, marked }) {
return html`<g data-at=${at} role="button" tabindex=${stop ? 0 : -1} class="node"
aria-pressed=${String(pressed)} aria-label=${label} transform=${`translate(${place.map((one) => one.toFixed(1))})`}>
<circle r=${radius} fill=${colour} stroke="currentColor" stroke-width=${marked ? 3 : 1} />
${name && html`<text y=${radius + 12} text-anchor="middle">${name}</text>`}
</g>`
}


function Types({ graph: { edges, types, directed } }) {
const there = [...new Set(edges.map(([,, type]) => type))].sort((one, other) => one - other)
return html`<p class="quiet">${there.map((type) => html`
<span style=${{ color: colourOf(type) }}>${directed ? '→' : '—'}</span> ${types[type]} `)}</p>`
}






function GraphDrawing({ look, values, row, hovered, pinned, column, colormap, onHover, onPick }) {
const { rows, columns, graph, signed, explains } = look
const box = useRef()
const radius = RADIUS * Math.min(1, Math.sqrt(CROWDED / columns.length))
const places = useMemo(() => placesOf(columns, graph.places), [columns, graph])
const edges = useMemo(() => edgesOf(columns, places, graph, radius), [columns, places, graph])
const active = hovered ?? pinned
const lines = useMemo(() => linesOf(look, values, active).map(({ from, to, width, value }) => html`<line
x1=${places[from][0]} y1=${places[from][1]} x2=${places[to][0]} y2=${places[to][1]} stroke-width=${width.toFixed(1)}
stroke=${value < 0 ? AGAINST : LINK} />`), [look, values, active])
const heat = useMemo(() => rowOrMean(values, columns.length, row), [values, columns, row])
const top = largest(heat.filter((_, at) => columns[at].node !== undefined), signed)
const [level, palette] = [levels(0, top, signed), paletteOf(colormap, signed)]
const colour = (value) => `rgb(${palette.slice(3 * level(value), 3 * level(value) + 3)})`
const seen = useMemo(() => columns.map((one) => findIn(rows, one)), [rows, columns])
const node = ({ text, name }, at) => {
const pressed = seen[at] !== null && seen[at] === pinned
return html`<${Node} key=${at} at=${at} label=${`${text}: ${short(heat[at])}`} place=${places[at]} radius=${radius}
name=${columns.length <= CROWDED || at === column ? shortened(name) : ''} colour=${colour(heat[at])}
stop=${at === (column ?? 0)} pressed=${pressed} marked=${pressed || at === column} />`
}
const of = ({ target }) => Number(target.closest('[data-at]')?.dataset.at ?? NaN)
const hover = (event) => {
const at = of(event)
if (at >= 0 && at !== column) onHover(seen[at], at)
}
const leave = () => onHover(null, null)
const pick = (event) => (seen[of(event)] ?? null) !== null && onPick(seen[of(event)])
const key = (event) => {
const next = stepTo(event, of(event) || 0, columns.length)
if (event.key === 'Enter' || event.key === ' ') pick(event)
else if (next !== undefined) box.current.querySelector(`[data-at="${next}"]`).focus()
else return
event.preventDefault()
}
return html`
<svg ref=${box} class="graph" viewBox=${`0 0 ${SIDE} ${SIDE}`} role="group" font-size="12"
aria-label="Nodes of the graph; arrow keys move over them, Enter pins one"
onPointerOver=${hover} onfocusin=${hover} onPointerLeave=${leave}
onfocusout=${(event) => event.currentTarget.contains(event.relatedTarget) || leave()}
onClick=${pick} onKeyDown=${key}>
<g class="lines-between" stroke-linecap="round">${lines}</g>
<g class="edges">${edges}</g>
${columns.map(node)}
</svg>
${graph.types?.length > 1 && html`<${Types} graph=${graph} />`}
<${Legend} top=${top} signed=${signed} colormap=${colormap} explains=${explains} />`
}

return { GraphDrawing }
})($colours_js, $legend_js, $lines_js, $preact_js, $roving_js, $values_js)
const $every_head_js = (({ HeadGrid }, { html }, { Select }, { percent }, { ORDERS, TERMS }) => {












function EveryHead({
maps, figures, kind, query, selection, change, chosen, choose, children, below, out = false, special,
}) {
const has = ([name]) => name === 'index' || name === 'entropy' || figures?.[name]
const orders = Object.entries(ORDERS).filter(has)
const order = orders.some(([name]) => name === selection.order) ? selection.order : 'index'
return html`
<h2>Every head</h2>
<p class="quiet" data-term=${TERMS.heads}>The raw attention of each. A click shows one large.</p>
<${Select} words="Order" id="order" term=${TERMS.order} values=${orders} chosen=${order}
choose=${(one) => change({ order: one })} />
${figures?.sinks?.map(({ layer, head, share }) => html`<p class="quiet" key=${`${layer} ${head}`}>
Layer ${layer}, head ${head} looks at one patch from everywhere
(${percent(share)})${out ? '; it is left out' : ''}.
</p>`)}
${children}
${maps?.[0].queries === 0 && html`<p class="quiet">Nothing is found, and so there are no rows.</p>`}
${maps?.[0].queries > 0 && html`<${HeadGrid}
maps=${maps}
order=${order}
figures=${figures}
chosen=${chosen}
onChoose=${choose}
grid=${kind.key === 'image' ? kind.grid : null}
prefix=${kind.prefix}
query=${query}
special=${special}
colormap=${selection.colormap}
own />`}
${below}`
}

return { EveryHead }
})($heads_js, $preact_js, $select_js, $values_js, $words_js)
const $selection_js = (({ GENERATION }, { taskOf }, { range }, { EXPLAINS, PICTURE, STATES }) => {





const MOST_FRAMES = 256
const MOST_EXACT = 700
const DEPTH = 2 / 3


const DEFAULTS = {
model: '', example: '', text: '', pair: '', chat: '', id: '',
other: '', than: '',
kind: '', method: '', layer: '', heads: 'mean', row: '', target: '', align: 'emit', merge: '',
first: '', sinks: '', discard: '',
object: '', threshold: '',
labels: '', template: '', multi: '', apart: '',
aggregate: '',
view: '', order: 'index', own: '', special: '', keep: '1', only: '', log: '', zoom: '1',
colormap: 'viridis', opacity: '0.8', smooth: '1', grey: '1', full: '',
compare: '', with: '', covered: '',
max_new_tokens: '', num_beams: '', temperature: '', top_k: '', top_p: '', seed: '', alternatives: '3',
source_language: '', target_language: '',
}


const DRAWN = 'drawn'


const PENDING = ['new', DRAWN]


const aboutAnother = (part) => ({
example: '', text: '', pair: '', chat: '', id: '', row: '', target: '', object: '', only: '',
compare: '', with: '', covered: '', ...part,
})


const aboutModel = (model, kept = {}) => ({
...aboutAnother({
...kept, model, other: '', than: '', kind: '', layer: '', first: '', sinks: '', discard: '', heads: 'mean',
method: '', threshold: '', labels: '', template: '', multi: '', apart: '', aggregate: '',
}),
...Object.fromEntries(GENERATION.map((name) => [name, ''])),
})


function within(model, selection) {
const kind = kindOf(model, selection)
const { rows = 0, columns = 0 } = kind.grid ?? {}
const cells = rows * columns
const listed = Array.isArray(model.labels)
const count = (listed ? model.labels.length : model.labels) || Infinity
const targets = selection.target.split(',').filter((one) =>
(/^\d+$/.test(one) ? Number(one) < count : !listed || model.labels.includes(one)))
return {
...selection,
row: cells && kind.query === 'image' && Number(selection.row) >= cells ? '' : selection.row,
heads: headsOf(selection).every((head) => head < kind.heads) ? selection.heads : 'mean',
target: targets.join(),
covered: cells ? coveredOf(selection).filter((cell) => cell < cells).join() : selection.covered,
}
}

const SAID = { image: 'width', sound: 'rate', graph: 'node_types' }


const sortOf = ({ inputs }) => Object.keys(SAID).find((sort) => inputs[SAID[sort]]) ?? 'text'


const readsAlike = (model, other) => sortOf(model) === sortOf(other)
&& String(model.inputs.node_types) === String(other.inputs.node_types)


const looksAtItsText = ({ query, key }) => query === 'source' && key === 'source'


const hasWords = ({ key }) => !['image', 'object', 'node'].includes(key)


const isLong = ({ inputs }, answer) => answer?.results?.[0].duration > inputs.seconds


const pinnedOf = ({ row }) => (row === '' ? null : Number(row))


const rowNamed = (row) => (row === null ? '' : String(row))


const hasObjects = ({ query, suffix }) => query === 'object' || suffix > 0


const coveredOf = ({ covered }) => (covered ? covered.split(',').map(Number) : [])


const headsOf = ({ heads }) => heads.split(',').map(Number).filter((head) => !Number.isNaN(head))


const kindsOf = (model) => Object.keys(model.attention.kinds).reverse()





function kindOf(model, selection) {
const names = kindsOf(model)
const name = names.includes(selection.kind) ? selection.kind
: names.find((one) => model.attention.kinds[one].key === 'image' || one === 'cross') ?? names[0]
const kind = { name, ...model.attention.kinds[name] }
return kind.grid && kind.query === kind.key ? { ...kind, query: 'image', key: 'image' } : kind
}


const secondOf = (model, other) =>
(/^\d{1,3}$/.test(other) && model?.examples?.[Number(other)] ? Number(other) : null)


const hasLabels = (model, { labels }) => Boolean(taskOf(model).chooses && labels)


function methodsOf(model, kind, selection) {
const { pair, other } = selection
if (!taskOf(model).compares || hasLabels(model, selection) || (model.inputs.width ? other : pair)) return kind.methods
return kind.methods.filter((one) => !EXPLAINS.includes(one))
}





function methodOf(model, kind, selection) {
const methods = methodsOf(model, kind, selection)
const { best, usual } = model.attention
const first = hasObjects(kind) || sortOf(model) === 'sound' ? 'raw' : best?.method
const told = hasLabels(model, selection) ? 'libra' : ''
const wanted = [selection.method, first, told, usual.method, 'rollout', 'raw']
return wanted.find((one) => methods.includes(one)) ?? methods[0]
}


const hasSinks = ({ grid, query, key, windows }) =>
Boolean(grid) && query === 'image' && key === 'image' && !windows.length


function rolloutOf(model, kind, { sinks, discard }) {
const { usual } = model.attention
const own = usual.method === 'rollout' ? usual : {}
return {
sinks: hasSinks(kind) ? sinks || own.sinks || 'keep' : 'keep',
discard: kind.windows.length ? 0 : Number(discard || own.discard || 0),
}
}


const firstLayerOf = (kind, selection) => Math.min(Number(selection.first), layerOf(kind, selection))


function layersOf(model, method) {
const through = method === 'rollout' || method === 'relevance'
const fixed = method === PICTURE || (EXPLAINS.includes(method) && (!through || 'cross' in model.attention.kinds))
return { through, fixed }
}


const layersIn = (kind, method) => (STATES.includes(method) ? kind.blocks : kind.layers)


function layerOf(kind, { layer, method }) {
const count = layersIn(kind, method)
const usual = STATES.includes(method) ? Math.max(Math.round(DEPTH * count) - 1, 0) : count - 1
return layer === '' ? usual : Math.min(Number(layer), count - 1)
}


const carriedOf = (model, kind, method) => method === 'rollout' && Boolean(kind.grid)
&& Object.values(model.attention.kinds).some(({ grid }) => grid?.rows > kind.grid.rows)


const sameGrid = (one, other) => one.grid?.rows === other.grid?.rows && one.grid?.columns === other.grid?.columns


function aboutKind(model, selection, name) {
const [old, kind] = [kindOf(model, selection), kindOf(model, { ...selection, kind: name })]
const uncovered = sameGrid(old, kind) ? {} : { covered: '', compare: '', with: '' }
return { kind: name, layer: '', first: '', heads: 'mean', row: '', method: '', ...uncovered }
}


function askedOf(model, other, selection) {
const [here, there] = [kindOf(model, selection), kindOf(other, selection)]
const classes = Array.isArray(other.labels) ? other.labels.length : other.labels
return {
...selection,
row: sameGrid(here, there) ? selection.row : '',
heads: headsOf(selection).every((head) => head < there.heads) ? selection.heads : 'mean',
target: selection.target.split(',').every((one) => Number(one) < classes) ? selection.target : '',
}
}





function comparisonsOf(models, model, selection, input) {
const kind = kindOf(model, selection)
const method = methodOf(model, kind, selection)
const others = (values, own) => values.filter((one) => one !== own)
const sort = sortOf(model)
if (STATES.includes(method) || sort === 'sound') return [['', 'nothing']]
const methods = others(methodsOf(model, kind, selection), method).filter((one) => !STATES.includes(one))
const layers = layersOf(model, method).fixed ? [] : others(range(kind.layers), layerOf(kind, selection))
const byId = EXPLAINS.includes(method) && Boolean(selection.against)
const asks = input?.kind !== 'kept' && !byId
const alike = models.filter((one) => asks && one.name !== model.name && readsAlike(one, model))
const image = (!input || input.bitmap) && 'the image with patches covered'
const another = { image, text: !input?.messages && 'another text' }[sort]
return [
['', 'nothing'],
...methods.map((one) => [`method:${one}`, `method ${one}`]),
...layers.map((one) => [`layer:${one}`, `layer ${one}`]),
...alike.map(({ name }) => [`model:${name}`, `model ${name}`]),
...(another ? [['input', another]] : []),
]
}


function compareOf(models, model, selection, input) {
const values = model ? comparisonsOf(models, model, selection, input).map(([value]) => value) : []
return values.includes(selection.compare) ? selection.compare : ''
}


const ofShown = (selection, answer) =>
({ ...selection, pair: answer?.input.pair ?? selection.pair, rival: answer?.input.rival })


function optionsOf(model, selection) {
const kind = kindOf(model, selection)
const method = methodOf(model, kind, selection)
const explains = EXPLAINS.includes(method)
const image = kind.key === 'image'
const speaks = image && kind.query !== 'image'
const { through, fixed } = layersOf(model, method)
const task = taskOf(model)
const options = { attention: method, kind: kind.name }
const last = layerOf(kind, selection)
if (!fixed) options.layers = through ? `${firstLayerOf(kind, selection)}:${last + 1}` : last
if (method === 'raw') options.heads = image ? selection.heads : 'all'
if (method === 'rollout') {
const { sinks, discard } = rolloutOf(model, kind, selection)
if (sinks === 'out') options.sinks = sinks
if (discard) options.discard = discard
if (['max', 'min'].includes(selection.heads)) options.heads = selection.heads
}
if (kind.query === 'frame') options.pool = MOST_FRAMES
const patch = image && !speaks && selection.row !== '' && !carriedOf(model, kind, method)
if (method === PICTURE) return options
if (STATES.includes(method)) return { ...options, ...ofStates(model, kind, method, selection) }
if (!explains) {
if (patch) options.queries = kind.prefix + pinnedOf(selection)
else if (hasObjects(kind)) Object.assign(options, task.options(model, selection))
else if (!image || speaks) options.queries = 'all'
if (kind.name === 'cross' && kind.query === 'target') options.align = selection.align
}
if (explains) Object.assign(options, task.explained(model, selection, method))
if (selection.merge && hasWords(kind)) options.merge = selection.merge === '1' ? 'words' : 'sentences'
return options
}


function ofStates(model, kind, method, { pair, against }) {
const other = model.inputs.width ? against && { id: against } : taskOf(model).compares && pair && { text: pair }
const cells = (kind.grid?.rows ?? 0) * (kind.grid?.columns ?? 0)
const all = method === 'similar' && { queries: 'all', ...(cells > MOST_EXACT && { dtype: 'uint8' }) }
return { ...all, ...(other && { against: other }) }
}


function headOptionsOf(model, selection) {
const kind = kindOf(model, selection)
const options = { attention: 'raw', kind: kind.name, layers: 'all', heads: 'all', diagnostics: true }
const patches = kind.key === 'image' && kind.query === 'image'
if (patches && selection.row !== '' && !EXPLAINS.includes(methodOf(model, kind, selection))) {
options.queries = kind.prefix + pinnedOf(selection)
} else if (hasObjects(kind)) Object.assign(options, taskOf(model).options(model, selection))
else if (!patches) options.queries = 'all'
if (kind.key !== 'image') options.pool = 48
return options
}

return { DEFAULTS, DRAWN, PENDING, aboutAnother, aboutModel, within, sortOf, looksAtItsText, hasWords, isLong, pinnedOf, rowNamed, hasObjects, coveredOf, headsOf, kindsOf, kindOf, secondOf, hasLabels, methodsOf, methodOf, hasSinks, rolloutOf, firstLayerOf, layersOf, layersIn, layerOf, carriedOf, aboutKind, askedOf, comparisonsOf, compareOf, ofShown, optionsOf, headOptionsOf }
})($generation_js, $tasks_js, $values_js, $words_js)
const $text_view_js = (({ SERIES }, { AsTable }, { Later }, { Legend }, { Lines }, { Matrix }, { html, useEffect, useMemo, useState }, { pinnedOf, rowNamed }, { Roving }, { InPlace, readout }, { difference, keepMass, labelOf, largest, range, rowOrMean, short, without }, { TOUCH, wordsOf }) => {













const VIEWS = { place: 'in place', lines: 'lines', matrix: 'matrix' }
const LEAST = 0.04


function shownLook(look, special, only, keep) {
const paired = look.columns.some(({ sequence }) => sequence)
const hidden = (tokens, text) => new Set([...tokens.keys()].filter((at) => {
const { special: isSpecial, sequence } = tokens[at]
return (special && isSpecial) || (only && paired && (sequence ?? 0) !== text)
}))
const [high, wide] = [look.rows.length, look.columns.length]
const [queries, keys] = [hidden(look.rows, 0), hidden(look.columns, 1)]
if (queries.size === high || keys.size === wide) return { ...look, kept: range(high) }
const left = look.series.map(({ values }) => without(values, high, wide, queries, keys, look.normalized))
const [{ queries: rows, keys: columns }] = left
return {
...look,
kept: rows,
rows: rows.map((at) => look.rows[at]),
columns: columns.map((at) => look.columns[at]),
series: look.series.map((one, at) => ({ ...one, values: keepOfRows(left[at].values, columns.length, keep) })),
sure: look.sure.length ? rows.map((at) => look.sure[at]) : [],
same: look.same && queries.size === keys.size && !only,
}
}


function keepOfRows(values, columns, share) {
if (share === 1) return values
const kept = values.slice()
for (let at = 0; at < kept.length; at += columns) kept.set(keepMass(kept.subarray(at, at + columns), share), at)
return kept
}


const useShown = (look, { special, only, keep }) =>
useMemo(() => look && shownLook(look, special, only, Number(keep)), [look, special, only, keep])






function panelsOf(look, compared, { here, there, comparable }, own) {
const panels = [{ look, label: here }]
if (compared) panels.push({ look: compared, label: there, apart: !comparable })
const alike = ({ rows, columns }) => rows.length === look.rows.length && columns.length === look.columns.length
if (compared && comparable && compared.subject === look.subject && alike(compared)) {
const values = difference(compared.series[0].values, look.series[0].values)
const changed = { ...look, signed: true, series: [{ name: 'difference', values }] }
panels.push({ look: changed, label: 'difference', apart: true })
}
const tops = panels.map(({ look: { series, signed } }) =>
Math.max(...series.map(({ values }) => largest(values, signed))))
const shared = Math.max(...tops.filter((_, at) => !panels[at].apart))
return panels.map((panel, at) => ({ ...panel, top: own || panel.apart ? tops[at] : shared }))
}


function rowTable({ rows, columns, series }, row) {
const own = series.map(({ values }) => rowOrMean(values, columns.length, row))
const line = (token, at) => [labelOf(token), ...own.map((values) => Number(short(values[at])))]
const head = ['token', ...series.map(({ name }) => name)]
const caption = row === null ? 'The mean of all' : `From “${labelOf(rows[row])}”`
return { caption, head, rows: columns.map(line), sorts: true }
}


function matrixTable({ rows, columns, series: [{ values }] }) {
const line = (token, row) => [
labelOf(token), ...columns.map((_, at) => Number(short(values[row * columns.length + at])))]
return { caption: 'The matrix', head: ['', ...columns.map(labelOf)], rows: rows.map(line) }
}





function TextView({ look: whole, other, selection, change, kind, playing, edit, point = () => {} }) {
const { own, colormap, log, zoom } = selection
const view = selection.view || (whole.numbers || kind.key === 'frame' ? 'matrix' : 'place')
const [hovered, setHovered] = useState(null)
const [hoveredColumn, setHoveredColumn] = useState(null)
const look = useShown(whole, selection)
const compared = useShown(other?.look, selection)
const panels = useMemo(
() => panelsOf(look, compared, other ?? {}, own),
[look, compared, other?.here, other?.there, other?.comparable, own],
)
useEffect(() => {
setHovered(null)
setHoveredColumn(null)
}, [look, view])

const shownRow = (at) => (at === null || !look.kept.includes(at) ? null : look.kept.indexOf(at))
const pinned = shownRow(pinnedOf(selection))
const graph = view === 'place' ? look.graph : null
const marked = shownRow(playing) ?? (graph ? null : hovered) ?? pinned ?? shownRow(whole.about) ?? (graph ? null : 0)
const rowIn = ({ rows }) => (marked === null ? null : Math.min(marked, rows.length - 1))
const row = rowIn(look)
const column = hoveredColumn < look.columns.length ? hoveredColumn : null
const pin = (at) => change({ row: rowNamed(at === pinned || at === null ? null : look.kept[at]) })
const hover = (at) => {
setHovered(at)
point(at === null ? null : look.kept[at])
}
const matrix = { log: Boolean(log), zoom: Number(zoom) }
const shared = { view, hovered, pinned, column, colormap, ...matrix, hover, point: setHoveredColumn, pin }
const panel = ({ look: one, label, top }, at) => html`<figure key=${at}>
${label && html`<figcaption>${label}</figcaption>`}
<${Drawn} ...${shared} look=${one} row=${rowIn(one)} top=${top} />
</figure>`
const said = ({ name, values }) => (look.series.length > 1 ? `${name}: ` : '')
+ [[row, column], ...(graph && hovered !== null ? [[hovered, null]] : [])].map(([row, column]) =>
readout({ ...look, values, row, column, sure: look.sure[row] })).join('\n')
const token = look.rows[pinned]
const editable = edit && kind.query === 'source' && token?.span && !token.special && !token.sequence
return html`
<${Tabs} view=${view} change=${change} explains=${look.explains} alike=${look.alike}
graph=${look.graph} what=${{ object: 'object', node: 'node' }[kind.query] ?? 'token'} />
<div class=${panels.length > 1 ? 'several' : ''} id="looks" onKeyDown=${({ key }) => key === 'Escape' && pin(null)}>
${panels.map(panel)}
</div>
<output class="readout">${look.series.map(said).join('\n')}</output>
<${AsTable} key=${view} table=${() => (view === 'matrix' ? matrixTable(look) : rowTable(look, row))} />
${editable && html`<${Edit} token=${token} edit=${edit} />`}
${view === 'matrix' && html`
<p class="quiet">
${look.alike ? 'How like rows and columns are' : wordsOf(kind).rows}
${look.apart && '; the 1 that each row’s own entry starts with is taken off'}
</p>
<label>Zoom <input type="range" id="zoom" name="zoom" min="1" max="8" step="1" value=${zoom}
onInput=${({ target }) => change({ zoom: target.value })} /></label>
<label class="box"><input type="checkbox" name="log" checked=${Boolean(log)}
onChange=${({ target }) => change({ log: target.checked ? '1' : '' })} /> logarithmic colours</label>
<${Legend} top=${panels[0].top} signed=${look.signed} colormap=${colormap} log=${Boolean(log)}
explains=${look.explains} />`}
${view === 'lines' && look.series.length > 1 && html`<${Swatches} series=${look.series} />`}`
}

function Tabs({ view, change, explains, alike, what, graph }) {
const tab = ([name, words]) => html`<button type="button" key=${name} id=${`view-${name}`}
aria-pressed=${view === name} onClick=${() => change({ view: name })}>${words}</button>`
const meaning = explains ? `What each ${what} contributed to ${graph ? 'the answer' : 'the marked one'}.`
: `What the marked ${what} ${alike ? 'is like' : 'looks at'}.`
return html`<${Roving} class="tabs" aria-label="View">
${Object.entries({ ...VIEWS, ...(graph && { place: 'graph' }) }).map(tab)}
<small>${meaning} ${TOUCH ? 'Touch one to pin it.' : 'Point at one, or click to pin it; Escape unpins.'}</small>
<//>`
}

const colourOf = ({ head }, at) => SERIES[(head ?? at) % SERIES.length]


function Swatches({ series }) {
const swatch = (one, at) => html`<span style=${{ color: colourOf(one, at) }}>■</span> ${one.name} `
return html`<p class="quiet">${series.map(swatch)}</p>`
}


function Drawn({ view, look, row, hovered, pinned, column, top, colormap, log, zoom, hover, point, pin }) {
const { rows, columns, series, signed, explains, alike } = look
if (view === 'lines') {
const coloured = series.map((one, at) => ({ ...one, signed, colour: colourOf(one, at) }))
return html`<${Lines} rows=${rows} columns=${columns} series=${coloured} pinned=${pinned} hovered=${hovered}
onHover=${hover} onPick=${pin} least=${LEAST} />`
}
const matrix = ({ name, values }) => html`<${Matrix} key=${name}
rows=${rows} columns=${columns} values=${values} signed=${signed} top=${top} colormap=${colormap}
log=${log} zoom=${zoom} hovered=${hovered === null ? null : { row: hovered, column }}
pinned=${pinned === null ? null : { row: pinned }}
onHover=${(cell) => (hover(cell?.row ?? null), point(cell?.column ?? null))}
onPick=${(cell) => pin(cell?.row ?? null)}
label=${explains ? 'Matrix of shares' : alike ? 'Matrix of likeness' : 'Matrix of attention'} />`
const inPlace = ({ name, values }) => html`<${InPlace} key=${name}
rows=${rows} columns=${columns} values=${values} signed=${signed} row=${row} pinned=${pinned}
text=${look.text} pair=${look.pair} before=${look.before} sure=${look.sure} same=${look.same}
onHover=${hover} onPick=${pin} />`
const onGraph = ({ name, values }) => html`<${Later} part="GraphDrawing" key=${name} look=${look} values=${values}
row=${row} hovered=${hovered} pinned=${pinned} column=${column} colormap=${colormap}
onHover=${(at, over) => (hover(at), point(over))} onPick=${pin} />`
const draw = view === 'matrix' ? matrix : look.graph ? onGraph : inPlace
return series.map((one) => html`${series.length > 1 && html`<small>${one.name}</small>`}${draw(one)}`)
}


function Edit({ token, edit }) {
const [words, setWords] = useState('')
const send = (event) => {
event.preventDefault()
edit(token, words)
}
return html`<form class="row" onSubmit=${send}>
<span>Instead of “${token.text.trim()}”</span>
<input type="text" name="instead" aria-label="Instead of the pinned token"
value=${words} onInput=${({ target }) => setWords(target.value)} />
<button>Change it and compare</button>
${edit.mask && html`<button type="button" id="mask" onClick=${() => edit(token, edit.mask)}>Mask it</button>`}
<button type="button" id="remove" disabled=${!edit.changed(token, '').trim()}
onClick=${() => edit(token, '')}>Leave it out</button>
</form>`
}

return { TextView }
})($colours_js, $figures_js, $lazy_js, $legend_js, $lines_js, $matrix_js, $preact_js, $selection_js, $roving_js, $tokens_js, $values_js, $words_js)
const $states_view_js = (({ Legend }, { Picture }, { html, useMemo, useState }, { pinnedOf, rowNamed }, { aboveOf, middleOf, placeOf, scaleOf, short }, { TOUCH }) => {







const NOTHING = new Float32Array(0)


function likenessOf(sides, side, at) {
const [first] = sides
const cells = first.rows * first.columns
if (at.side === 0) return side.row(at.cell)
if (side !== first) return null
return Float32Array.from({ length: cells }, (_, cell) => sides[1].row(cell)[at.cell])
}


function scaleFor(heat, sought, full) {
const { top } = scaleOf(sought, false, full)
return { top, ...aboveOf(heat.flatMap((values) => [...values ?? []]), false, top) }
}

const hottest = (values) => values.reduce((best, value, at) => (value > values[best] ? at : best), 0)





function SimilarView({ look: { sides }, sources, selection, change }) {
const [over, point] = useState(null)
const [beyond, pin] = useState(null)
const own = { side: 0, cell: pinnedOf(selection) ?? middleOf(sides[0]) }
const pinned = beyond !== null && sides[1] ? { side: 1, cell: beyond } : own
const at = over && sides[over.side] ? over : pinned
const found = useMemo(() => sides.map((side) => likenessOf(sides, side, at)), [sides, at.side, at.cell])
const heat = useMemo(() => found.map((values) => values?.map((value) => Math.max(value, 0)) ?? null), [found])
const { full, colormap, opacity, smooth, grey } = selection
const scale = useMemo(() => scaleFor(heat, heat[1 - at.side] ?? heat[at.side], Boolean(full)), [heat, full])
const pick = (side, cell) => {
pin(side ? cell : null)
if (!side) change({ row: rowNamed(cell) })
}
const other = sides.length > 1 ? 1 - at.side : 0
const best = hottest(found[other] ?? NOTHING)
const markOf = (side) => (side === other && side !== at.side && found[side] ? best
: side === pinned.side ? pinned.cell : null)
const words = (side) => (sides.length < 2 ? '' : side ? 'the second picture' : 'the first picture')
const nearest = sides.length > 1 && found[other]?.length
? `Most alike in ${words(other)}: ${placeOf(best, sides[other].columns)}, cosine ${short(found[other][best])}.` : ''
const hint = over && sides.length === 1 ? '' : TOUCH ? 'Touch a part.' : 'Point at a part; click it to keep it.'
return html`
<div class=${sides.length > 1 ? 'pictures several' : 'pictures'} id="picture">
${sides.map((side, number) => html`<figure key=${number}>
<${Picture} ...${side} source=${sources[number]} cells=${heat[number] ?? coldOf(side)} low=${0}
top=${scale.top} query=${markOf(number)} hovered=${over?.side === number ? over.cell : null}
onHover=${(cell) => point(cell === null ? null : { side: number, cell })}
onPick=${(cell) => pick(number, cell)}
colormap=${colormap} opacity=${Number(opacity)} smooth=${Boolean(smooth)} grey=${Boolean(grey)}
label=${words(number) || 'Parts that are alike'} />
</figure>`)}
</div>
<${Legend} ...${scale} colormap=${colormap} opacity=${Number(opacity)}
over=${{ image: sides[0].image, source: sources[0], grey }} />
<output class="readout">
${[`Like ${placeOf(at.cell, sides[at.side].columns)}${words(at.side) && ` of ${words(at.side)}`}.`, nearest, hint]
.filter(Boolean).join('\n')}
</output>`
}

const coldOf = ({ rows, columns }) => new Float32Array(rows * columns)


function PartsView({ look: { sides }, sources, selection }) {
const { opacity, smooth, grey } = selection
return html`
<div class=${sides.length > 1 ? 'pictures several' : 'pictures'} id="picture">
${sides.map((side, number) => html`<figure key=${number}>
<${Picture} ...${side} source=${sources[number]} opacity=${Number(opacity)}
smooth=${Boolean(smooth)} grey=${Boolean(grey)} label="Parts, each in a colour" />
</figure>`)}
</div>
<output class="readout">
Red, green and blue are the three directions in which the patches${sides.length > 1 ? ' of both pictures' : ''}
differ most: what has one colour is alike to the model.
</output>`
}

return { SimilarView, PartsView }
})($legend_js, $picture_js, $preact_js, $selection_js, $values_js, $words_js)
const $looks_js = (({ headsOf }, { fuse, headOf, largest, range, rowOf, unpackMap }, { EXPLAINS }) => {




const mean = (rows) => rows[0].map((_, at) => rows.reduce((sum, row) => sum + row[at], 0) / rows.length)
const headName = (map, head) => (Array.isArray(map.heads) ? `head ${map.heads[head]}` : map.heads)


const mapsOf = (attention) =>
attention.maps.map((map) => {
const names = range(map.shape[0]).map((head) => headName(map, head))
return { ...unpackMap(map, attention.method), names, fused: !Array.isArray(map.heads) }
})


const subjectOf = (maps) => JSON.stringify(maps.map(({ target, targets }) =>
[target?.object ?? target?.entity ?? target?.answer, target?.mask, target?.label,
targets?.map(({ position, text }) => [position, text])]))





function foundIn({ tokens: { object: all = [] } }, answered, least = 0.5) {
const sure = answered ?? all.filter(({ probability }) => probability >= least)
.sort((one, other) => other.probability - one.probability)
return sure.filter(({ object }, at) => sure.findIndex((one) => one.object === object) === at)
}







function imageLook(attention, kind, row = null, found = []) {
const { tokens, image, maps: [{ normalized, objects: numbers = null, target, grid = tokens.grid }] } = attention
const { prefix } = tokens
const end = prefix + grid.rows * grid.columns
const panels = mapsOf(attention).flatMap((map) => map.names.map((name, head) => {
const queries = range(map.queries).map((query) => rowOf(map, head, query).slice(prefix, end))
const rows = numbers || kind.query !== 'image' ? queries : row === null ? [mean(queries)] : [queries[row]]
const label = map.target?.label !== undefined ? `for “${map.target.label}”` : map.names.length > 1 ? name : ''
return { label, rows, signed: map.signed, share: map.normalized }
}))
const written = kind.query === 'image' ? [] : tokens.target ?? []
const words = numbers ? numbers.map((one) => ({ text: tokens.object[one].label })) : written
const explained = target?.object ?? null
const seen = { panels, words, image, rows: grid.rows, columns: grid.columns, normalized }
return { ...seen, numbers, explained, found, subject: subjectOf(attention.maps) }
}





function statesLook(attention) {
const sides = [attention, attention.against].filter((one) => one?.maps)
return { states: attention.method, sides: sides.map((one) => sideOf(one, attention.method)) }
}

function sideOf({ tokens: { grid, prefix }, image, maps: [map] }, method) {
const own = unpackMap(map, method)
const patches = (head, query) => rowOf(own, head, query).slice(prefix, prefix + grid.rows * grid.columns)
const seen = { image, ...grid }
if (method === 'similar') return { ...seen, row: (cell) => patches(0, prefix + cell) }
return { ...seen, colours: range(own.heads).map((head) => patches(head, 0)) }
}












function textLook(attention, kind, {
text, pair, row: score, written, heads, mask, merged, found = [], about = 0, step, edges, turns,
}) {
const { method } = attention
const object = attention.tokens.object?.map((one) => objectToken(one, found))
const [frame, band] = [step, 0].map((seconds) => framesOf(attention.maps[0], seconds))
const axes = { ...attention.tokens, frame, band, object, node: attention.tokens.node?.map(nodeToken) }
const maps = mapsOf(attention)
const [{ target, targets, queries, keys, pool, rows: named, objects: numbers = null }] = maps
const asked = numbers ? numbers.map((one) => axes.object[one]) : blocksOf(axes[kind.query], queries, pool)
const generated = kind.query === 'target'
const behind = axes.source ? 0 : [...text].length
const given = ({ span }) => span && span[0] < behind && span[1] <= behind
const first = !generated ? 0 : turns ? asked.findIndex(({ message }) => message === turns)
: asked.findLastIndex(given) + 1
const own = asked.slice(first)
const columns = blocksOf(axes[kind.key], keys, pool)
const explains = EXPLAINS.includes(method)
const whole = explains && !target && !targets
const emitted = (token, at) => ({ text: token.text, span: null, special: at >= written.length })
const some = !target && !whole && queries !== (targets ? own : asked).length
const single = targets && (merged || some)
const explained = ({ object, part, label }) => axes.object?.[object] ?? { text: part ?? score ?? label, span: null }
const rows = target ? maps.map((map) => explained(map.target))
: whole ? [{ text: 'likeness', span: null }] : single ? targets.map(emitted)
: some && named ? named.map((row) => asked[row])
: some ? range(queries).map((row) => ({ text: `row ${row + 1} of ${queries}`, span: null })) : own
const skip = target || whole || targets || some ? 0 : first * columns.length
const values = target || whole ? Float32Array.from(maps.flatMap((map) => [...rowOf(map, 0, 0)])) : null
const series = values ? [{ name: method, values }] : seriesOf(maps[0], heads, skip)
const apart = method === 'relevance' && kind.name !== 'cross' && !whole
if (apart) for (const one of series) takeIdentity(one.values, rows, columns, maps, mask, merged)
const answer = own.filter(({ span }) => span).map((token) => token.text).join('')
const start = own.find(({ span }) => span)?.span[0] ?? behind
const continued = generated && !axes.source
const same = !values && !some && !numbers && kind.query === kind.key
const until = continued ? [...text].slice(0, start).join('') : ''
return {
rows, columns, series, apart, before: single && continued ? text : until, explains, alike: method === 'similar',
signed: maps[0].signed,
normalized: maps[0].normalized && !['max', 'min'].includes(heads),
text: kind.key === 'source' ? text : until + answer, pair,
start: first, same,
graph: attention.graph && !pool ? { ...attention.graph, types: edges } : null,
about: aboutOf(rows, mask, same && !merged ? about : 0),
numbers, explained: target?.object ?? null, found, image: attention.image, subject: subjectOf(maps),
sure: generated && !merged && !some && !pool ? written.map(({ log_probability }) => Math.exp(log_probability)) : [],
}
}


function aboutOf(rows, mask, about) {
if (rows[0]?.node !== undefined) return null
return mask ? Math.max(rows.findIndex(({ text }) => text.includes(mask)), 0) : about
}


function framesOf({ shape: [,, keys], pool }, step) {
const size = Math.ceil((pool?.keys ?? keys) / keys)
const name = (frame) => (step ? `${(frame * step).toFixed(2)}\u00a0s` : String(frame))
return range(keys).map((at) => ({ text: name(at * size), span: null }))
}


function withinSound(look, kind, part) {
const count = (axis, list) => (axis === 'frame' ? Math.ceil(part * list.length) : list.length)
const [rows, columns] = [count(kind.query, look.rows), count(kind.key, look.columns)]
const kept = (values) => Float32Array.from(range(rows * columns), (at) =>
values[Math.floor(at / columns) * look.columns.length + (at % columns)])
return {
...look, rows: look.rows.slice(0, rows), columns: look.columns.slice(0, columns),
normalized: false,
series: look.series.map((one) => ({ ...one, values: kept(one.values) })),
}
}


function nodeToken({ text, span, special }) {
const node = span?.[0]
const words = node === undefined ? text : `${text} #${node}`
return { text: words.replaceAll(' ', '\u00a0'), span: null, special, name: text, node }
}


function objectToken({ label, object }, found) {
const words = found.some((one) => one.object === object) ? `${label} #${object}` : `#${object}`
return { text: words.replaceAll(' ', '\u00a0'), span: null }
}


function blocksOf(tokens, count, pool) {
if (!pool || tokens.length === count) return tokens
const size = Math.ceil(tokens.length / count)
const gap = (one, next) => (one?.span && next.span && next.span[0] > one.span[1] ? ' ' : '')
return range(count).map((block) => {
const part = tokens.slice(block * size, (block + 1) * size)
const spans = part.flatMap(({ span }) => (span ? [span] : []))
return {
text: part.map((token, at) => gap(part[at - 1], token) + token.text).join(''),
span: spans.length ? [spans[0][0], spans.at(-1)[1]] : null,
special: part.every(({ special }) => special),
sequence: part[0].sequence,
message: part[0].message,
}
})
}


function seriesOf(map, heads, skip) {
const chosen = headsOf({ heads })
if (map.fused || map.names.length === 1) return [{ name: map.names[0], values: headOf(map, 0).slice(skip) }]
if (!chosen.length) return [{ name: `${heads} of heads`, values: fuse(map, heads).slice(skip) }]
const there = chosen.filter((head) => head < map.names.length)
if (!there.length) return [{ name: 'mean of heads', values: fuse(map, 'mean').slice(skip) }]
return there.map((head) => ({ name: `head ${head}`, head, values: headOf(map, head).slice(skip) }))
}


function takeIdentity(values, rows, columns, maps, mask, merged) {
const masks = range(columns.length).filter((at) => mask && columns[at].text.includes(mask))
rows.forEach((_, row) => {
const line = values.subarray(row * columns.length, (row + 1) * columns.length)
const { target } = maps[row] ?? {}
const hottest = line.indexOf(largest(line))
const own = target?.object !== undefined ? target.object
: !target ? line.findLastIndex((value) => value > 0)
: 'entity' in target || 'part' in target ? (merged ? hottest : target.position)
: 'mask' in target ? masks[target.mask] ?? hottest : 0
if (own >= 0) line[own] = Math.max(0, line[own] - 1)
})
}

return { mapsOf, foundIn, imageLook, statesLook, textLook, withinSound, blocksOf }
})($selection_js, $values_js, $words_js)
const $image_view_js = (({ AsTable }, { Legend }, { Picture, coldest }, { html, useMemo, useRef, useState }, { pinnedOf, rowNamed }, { aboveOf, difference, extremesOf, figure, keepMass, percent, placeOf, range, scaleOf }, { TOUCH }) => {








const sizeOf = ({ rows, columns }) => `${rows} × ${columns}`


const ELSEWHERE = { query: null, hovered: null, onHover: undefined, onPick: undefined }





function panelsOf(look, source, { word, object }, { keep, full }, title) {
const { panels, image, rows, columns, numbers, found } = look
const at = numbers ? numbers.indexOf(object) : word
return panels.map(({ rows: lines, ...panel }) => {
const values = lines[Math.min(at, lines.length - 1)] ?? null
const missing = numbers && at < 0 && title && 'does not find it'
const label = [title, panel.label, missing].filter(Boolean).join(', ')
const cells = values && keepMass(values, keep)
const every = lines.flatMap((line) => [...line])
return {
...panel, image, rows, columns, source, values, cells, label, objects: found, every,
...scaleOf(every, panel.signed, full),
}
})
}


function tableOf({ values, rows, columns, share }) {
const row = (at) => [at, ...[...values.subarray(at * columns, (at + 1) * columns)].map((one) => figure(one, share))]
return { caption: 'Values of the patches', head: ['row', ...range(columns)], rows: range(rows).map(row) }
}


const samePlace = ({ box }, other) => Object.keys(box).every((edge) => box[edge] === other.box[edge])


function differenceOf(one, other, full) {
if (!samePlace(one.image, other.image)) return []
if (!one.values || one.values.length !== other.values?.length) return []
const values = difference(other.values, one.values)
const drawn = { values, cells: values, signed: true, ...scaleOf(values, true, full) }
return [{ ...one, ...drawn, label: 'difference', apart: true, first: false }]
}





function allPanels(look, source, other, opposite, place, style) {
const here = panelsOf(look, source, place, style, other?.here).map((panel) => ({ ...panel, first: true }))
const elsewhere = (panel) => ({ ...panel, second: true })
if (!other) {
return opposite ? [...here, ...panelsOf(opposite.look, opposite.source, place, style).map(elsewhere)] : here
}
const there = panelsOf(other.look, other.source, place, style, other.there)
.map((panel) => ({ ...panel, apart: !other.comparable }))
const pair = other.comparable && other.look.subject === look.subject && here.length + there.length === 2
return [...here, ...there, ...(pair ? differenceOf(here[0], there[0], style.full) : [])]
}


function seenFrom({ words, normalized, columns }, word, query, prefix, values) {
if (!values) return 'Nothing is found that looks at anything.'
const from = words.length ? `“${words[Math.min(word, words.length - 1)].text.trim()}”`
: query !== null ? `the patch in ${placeOf(query, columns)}` : prefix ? 'the class token' : 'all patches, mean'
const sum = values.reduce((total, value) => total + value, 0)
return `Seen from ${from}${normalized ? `; ${percent(sum)} of its attention is on patches` : ''}.`
}







function ImageView({
look, other, opposite, source, selection, change, word, objects, covered = [], cover, prefix, explains, fixed = false,
ofObjects = false,
}) {
const [over, setHovered] = useState(null)
const hovered = over < look.rows * look.columns ? over : null
const box = useRef(null)
const [covering, setCovering] = useState(false)
const [own, keep, full] = [Boolean(selection.own), Number(selection.keep), Boolean(selection.full)]
const object = objects?.shown
const panels = useMemo(
() => allPanels(look, source, other, opposite, { word: word ?? 0, object }, { keep, full }),
[look, source, opposite?.source, other?.look, other?.source, other?.here, other?.there, other?.comparable,
word, object, keep, full],
)
const scaled = panels.filter(({ apart }) => !apart)
const common = useMemo(
() => scaleOf(scaled.flatMap(({ every }) => every), scaled[0].signed, full), [panels, full])
const above = aboveOf(scaled.flatMap(({ values }) => [...values ?? []]), scaled[0].signed, common.top)
const low = Math.min(...scaled.map(({ cells }) => coldest(cells ?? [0])))
const canPick = !fixed && (ofObjects || !look.words.length) && !explains
const query = canPick ? pinnedOf(selection) : null
const boxes = objects && look.found.length > 0
const asks = boxes && objects.hovered !== null && objects.hovered !== look.explained
const picksObject = boxes && (explains || (ofObjects && query === null))
const at = look.numbers ? Math.max(look.numbers.indexOf(object), 0) : word ?? 0
const pick = (cell) => canPick && change({ row: rowNamed(cell === query ? null : cell) })
const leave = (act) => {
act()
box.current.querySelector('.cells').focus()
}
const shared = {
query, hovered, covering, onHover: setHovered, onPick: pick,
colormap: selection.colormap, opacity: Number(selection.opacity), smooth: Boolean(selection.smooth),
grey: Boolean(selection.grey),
...(boxes && {
marked: objects.hovered ?? look.explained ?? objects.shown, pinned: objects.pinned,
onObject: objects.hover, onPickObject: picksObject ? objects.pin : undefined,
}),
}
const [first] = panels
const tinted = { over: { image: look.image, source, grey: shared.grey }, opacity: shared.opacity }
const picture = (panel, at) => {
const alone = own || panel.apart
const scale = alone ? { top: panel.top, low: undefined } : { top: common.top, low }
const same = !panel.second && panel.rows === look.rows && panel.columns === look.columns
const places = same ? {} : ELSEWHERE
return html`<figure key=${at}>
<${Picture} ...${panel} ...${shared} ...${scale} ...${places}
covered=${panel.first ? covered : []} onCover=${panel.first ? cover : undefined}
label=${`Heat map${panel.label && ` ${panel.label}`}, ${sizeOf(panel)} patches; arrow keys move over them`} />
${panel.apart && html`<${Legend} ...${panel} ...${tinted} explains=${false}
low=${panel.signed ? 0 : coldest(panel.cells ?? [0])} colormap=${selection.colormap} />`}
${panel.label && html`<figcaption>
${panel.label}${alone && `, up to ${figure(panel.most, panel.share)}`}
</figcaption>`}
</figure>`
}
const scale = own
? { top: first.top, low: coldest(first.cells ?? [0]), ...aboveOf(first.values ?? [], first.signed, first.top) }
: { top: common.top, low, ...above }
const pins = picksObject ? ' Click a box to pin its object; Escape unpins.' : ''
const click = pins || (canPick ? ' Click it to see from there.' : '')
const mouse = `Point at a patch to see its value.${click}${cover ? ' Drag with Shift to cover some.' : ''}`
const hint = TOUCH ? 'Touch a patch to see its value.' : mouse
const alike = panels.filter(({ values, rows, columns, second }) =>
values && !second && rows === look.rows && columns === look.columns)
const numbers = alike.map(({ values, share }) => figure(values[hovered], share)).join(' · ')
const under = covered.includes(hovered) ? ', which is covered' : ''
const moved = other && first.values && covered.length > 0 && !samePlace(look.image, other.look.image)
const lines = [
!first.values ? '' : hovered === null ? hint : `In ${placeOf(hovered, look.columns)}${under}: ${numbers}`,
first.values && hovered === null ? extremesOf(first.values, look.columns, first.signed, first.share) : '',
moved ? 'With these covered, the model takes another part of the picture: its patches lie elsewhere.' : '',
!explains ? seenFrom(look, at, query, prefix, first.values) : asks ? 'Click to explain this object.' : '',
]
return html`
<div ref=${box} class=${panels.length > 1 ? 'pictures several' : 'pictures'} id="picture">
${panels.map(picture)}
</div>
${first.values && html`<${Legend}
...${scale} ...${tinted} signed=${first.signed}
share=${first.share} colormap=${selection.colormap} explains=${explains} />`}
<output class="readout">${lines.filter(Boolean).join('\n')}</output>
${first.values && html`<${AsTable} table=${() => tableOf(first)} />`}
<div class="row">
${query !== null && html`<button type="button" id="back" onClick=${() => leave(() => pick(null))}>
${ofObjects ? 'Back to the objects' : prefix ? 'Back to the class token' : 'Back to all patches'}
</button>`}
${source && cover && html`<button type="button" id="cover" aria-pressed=${covering}
onClick=${() => setCovering(!covering)}>Cover patches</button>`}
${covered.length > 0 && html`<button type="button" id="uncover"
onClick=${() => leave(() => cover([]))}>Uncover</button>`}
</div>`
}

return { ImageView }
})($figures_js, $legend_js, $picture_js, $preact_js, $selection_js, $values_js, $words_js)
const $objects_view_js = (({ Picture }, { html }, { rowNamed }, { TextView }) => {






function BetweenObjects({ look, other, selection, change, kind, objects, source }) {
const { found, numbers, explained, image } = look
const rowOf = (number) => (numbers?.includes(number) ? numbers.indexOf(number) : null)
const pick = ({ row, ...part }) => {
if (row !== undefined && numbers) objects.pin(row === '' ? null : numbers[Number(row)])
if (Object.keys(part).length) change(part)
}
return html`
<div class="pictures"><${Picture}
image=${image} source=${source} cells=${null} rows=${1} columns=${1} top=${1} label="What was found"
objects=${found} marked=${objects.hovered ?? explained ?? objects.shown} pinned=${objects.pinned}
onObject=${objects.hover} onPickObject=${objects.pin} /></div>
${look.rows.length ? html`<${TextView} look=${look} other=${other} kind=${kind} change=${pick}
selection=${{ ...selection, row: rowNamed(rowOf(objects.pinned)) }} playing=${rowOf(objects.hovered)}
point=${(row) => objects.hover(row === null || !numbers ? null : numbers[row])} />`
: html`<p class="readout">Nothing is found that looks at anything.</p>`}`
}

return { BetweenObjects }
})($picture_js, $preact_js, $selection_js, $text_view_js)
const $inline_js = (({ blobOf }, { placed }, { DrawControls }, { EveryHead }, { ImageView }, { Heard }, { GraphDrawing }, { arrive }, { foundIn, imageLook, mapsOf, statesLook, textLook }, { Marked }, { useObjects }, { BetweenObjects }, { html, render, useEffect, useMemo, useState }, { Ranked }, { Roving }, { Select }, { DEFAULTS, looksAtItsText, pinnedOf, rowNamed }, { Spans }, { PartsView }, { taskOf, viewOf }, { TextView }, { short }, { EXPLAINS, METHODS, SORTS, wordsOf }) => {
























const NARROW = 6





function kindOfMap({ kind: name, grid: own }, { grid: common = null, prefix = 0, object, source, node }) {
const grid = own ?? common
const input = grid ? 'image' : source ? 'source' : node ? 'node' : 'frame'
const [answer, before] = object ? ['object', 'object'] : ['target', 'target_input']
const axes = { encoder: [input, input], cross: [answer, input], decoder: [answer, before] }
const kind = SORTS.includes(name) ? name : 'encoder'
const [query, key] = axes[kind]
return { name, kind, query, key, prefix, grid }
}


function groupsOf({ maps, tokens }) {
const named = new Map()
for (const map of maps) named.set(map.name, [...(named.get(map.name) ?? []), map])
const groups = [...named.values()].map((some) => ({ maps: some, kind: kindOfMap(some[0], tokens) }))
const kinds = new Set(groups.map(({ kind }) => kind.name))
const names = [...kinds].reverse()
const place = ({ kind }) => SORTS.indexOf(kind.kind) * names.length + names.indexOf(kind.name)
groups.sort((one, other) => place(one) - place(other))
return groups.map(({ maps: some, kind }) => {
const alone = groups.filter((one) => one.kind.name === kind.name).length === 1
const layer = alone ? '' : `layer ${some[0].layer ?? some[0].name}`
return { maps: some, kind, words: [kinds.size > 1 && wordsOf(kind).name, layer].filter(Boolean).join(', ') }
})
}


function rowSeen({ maps: [map], kind }, patch) {
const rows = map.objects ? 0 : map.shape[1]
const every = kind.query === 'image' && rows > 1 && rows >= kind.prefix + cellsOf(kind)
if (!every) return { every, row: kind.query === 'image' && map.shape[1] === 1 ? 0 : null }
return { every, row: patch === null ? (kind.prefix ? 0 : null) : kind.prefix + patch }
}

const cellsOf = ({ grid }) => grid.rows * grid.columns


function areMerged({ tokens: { target = [] } }, written) {
const spoken = target.filter(({ span }) => span).slice(-written.length)
return spoken.some(({ text }, at) => text !== written[at]?.text) || spoken.length < written.length
}


function rowsAnswer(group, attention, { tokens = [] }) {
return group?.kind.query === 'target' && group.maps[0].shape[1] >= tokens.length && !areMerged(attention, tokens)
}


function lookOf(seen, attention, group, patch, heads, found, shown) {
const { text, messages, result, mask, edge_types: edges } = seen
const tokens = messages ? placed(attention.tokens, messages) : attention.tokens
const part = { ...attention, tokens, maps: group.maps }
if (attention.method === 'parts') return statesLook({ ...part, against: null })
if (group.kind.key === 'image') return imageLook(part, group.kind, rowSeen(group, patch).row, found)
const written = result.tokens ?? []
const merged = !found.length && areMerged(attention, written)
const about = result.entities?.find(({ object }) => object === shown)?.tokens[0]
const turns = messages?.length
return textLook(part, group.kind, { text: text ?? '', written, heads, mask, merged, found, about, edges, turns })
}


function useBitmap(address) {
const [bitmap, show] = useState(null)
useEffect(() => {
if (address) createImageBitmap(blobOf(address)).then(show, () => {})
}, [address])
return bitmap
}


function resultOf({ result = {}, text }) {
const { entities, answers, context, index, score, against } = result
if (entities) return { text, ...result, entities: entities.map((one, object) => ({ object, ...one })) }
if (answers && context === undefined) {
return { ranked: answers.map((one, object) => ({ object, text: one.text, share: one.score })) }
}
if (index === undefined) return result
return { ranked: [{ object: index, score, text: result.text }], against }
}


function headOf(every, { layer, head }) {
const map = every.maps.find((one) => one.layer === layer)
return { group: { ...every, maps: [map] }, head }
}

function Inline({ seen }) {
const [selection, set] = useState({ ...DEFAULTS, ...seen.drawn })
const change = (part) => set((old) => ({ ...old, ...part }))
const { heads } = seen
const result = useMemo(() => resultOf(seen), [])
const attention = seen.attention ?? heads
const groups = useMemo(() => (attention ? groupsOf(attention) : []), [])
const first = groups.filter(({ kind }) => kind.name === groups[0].kind.name).length - 1
const [place, choose] = useState(first)
const [chosen, pick] = useState(null)
const found = useMemo(() => (attention ? foundIn(attention, result.objects) : result.objects ?? []), [])
const objects = useObjects(result.entities ?? result.answers ?? result.ranked ?? found, selection, change)
const rows = rowsAnswer(groups[place], attention, result)
const [written, mark] = useState(null)
const Answer = viewOf(result)
const every = useMemo(() => everyOf(heads, groups[place]?.kind), [place])
const { title } = taskOf({ ...seen, endpoints: result.ranked?.[0].score === undefined ? [] : ['rerank'] })
const many = every && Math.max(...every.unpacked.map((map) => map.heads)) > NARROW
const names = ['inline', many && 'many', (Answer || (every && !many)) && 'beside'].filter(Boolean).join(' ')
return html`
<header><h1>${seen.model}</h1><small>${title} ${seen.about}</small></header>
<main class=${names}>
${Answer && html`<section id="answer" aria-label="Answer">
<h2>Answer</h2>
<${Answer} results=${[result]} objects=${objects}
pinned=${rows ? pinnedOf(selection) : written}
pin=${rows ? (row) => change({ row: rowNamed(row) }) : mark} />
</section>`}
${groups.length > 0 && html`<${Looked} seen=${{ ...seen, result }} attention=${attention} groups=${groups}
every=${every} place=${place} choose=${(at) => (choose(at), pick(null), change({ row: '' }))}
chosen=${chosen} pick=${pick} selection=${selection} change=${change} found=${found} objects=${objects} />`}
${!groups.length && html`<${Sent} ...${seen} />`}
${every && html`<section id="heads" aria-label="Every head">
<${EveryHead} maps=${every.unpacked} figures=${every.figures} kind=${every.kind}
query=${rowOfHeads(every, pinnedOf(selection), objects)}
selection=${selection} change=${change} chosen=${chosen}
choose=${(one) => pick(one.layer === chosen?.layer && one.head === chosen?.head ? null : one)} />
</section>`}
</main>`
}


function everyOf(heads, kind) {
const maps = heads?.maps.filter((map) => map.kind === kind?.name) ?? []
if (maps.length * (maps[0]?.shape[0] ?? 0) < 2) return null
const figures = heads.diagnostics?.find((one) => one.kind === kind.name) ?? null
return { maps, kind, figures, unpacked: mapsOf({ ...heads, maps }) }
}


function rowOfHeads(every, pinned, { shown }) {
const [{ objects: numbers }] = every.maps
if (numbers) return Math.max(numbers.indexOf(shown), 0)
return every.kind.query === 'image' ? rowSeen(every, pinned).row : pinned ?? 0
}


function Looked({
seen, attention, groups, place, choose, every, chosen, pick, selection, change, found, objects,
}) {
const bitmap = useBitmap(seen.picture)
const one = chosen && headOf(every, chosen)
const group = one?.group ?? groups[place]
const { method } = one ? { method: 'raw' } : attention
const pinned = pinnedOf(selection)
const { every: all, row } = rowSeen(group, pinned)
const look = useMemo(() => {
const heads = one ? String(one.head) : selection.heads
const whole = lookOf(seen, one ? seen.heads : attention, group, pinned, heads, found, objects.shown)
return one && whole.panels ? { ...whole, panels: [{ ...whole.panels[one.head], label: '' }] } : whole
}, [place, chosen, group.kind.key === 'image' ? row : seen.result.entities ? objects.shown : null])
const shared = { look, selection, change }
const image = group.kind.key === 'image'
const text = () => (group.kind.query === 'object'
? html`<${BetweenObjects} ...${shared} kind=${group.kind} objects=${objects} source=${bitmap} />`
: html`<${TextView} ...${shared} kind=${group.kind} />`)
const { against } = seen.result
const than = against ? `, against ${against.text} (${short(against.score)})` : ''
const words = one ? `raw, layer ${chosen.layer}, head ${chosen.head}` : `${method}${than}`
return html`<section id="look" aria-label="What it looked at">
<div class="row">
<h2>What it looked at</h2><small>${words}</small>
${one && html`<button type="button" id="method" onClick=${() => pick(null)}>Back to ${attention.method}</button>`}
${!one && groups.length > 1 && html`<${Select} words="Map" id="map" chosen=${String(place)}
values=${groups.map((other, at) => [String(at), other.words])} choose=${(at) => choose(Number(at))} />`}
</div>
${look.states
? html`<${PartsView} look=${look} sources=${[bitmap]} selection=${selection} />`
: image ? html`<${ImageView} ...${shared} source=${bitmap} word=${look.words.length ? pinned : null} fixed=${!all}
objects=${objects} ofObjects=${Boolean(look.numbers)}
prefix=${group.kind.prefix} explains=${EXPLAINS.includes(method)} />`
: text()}
<p class="meaning">${METHODS[method]}</p>
<${DrawControls} selection=${selection} change=${change} text=${!image} pairs=${looksAtItsText(group.kind)} />
</section>`
}


function Sent({ picture, text }) {
if (!picture && !text) return null
return html`<section id="sent" aria-label="What was sent">
<h2>Input</h2>
${picture ? html`<img src=${picture} alt="What was sent" />` : html`<p class="words">${text}</p>`}
</section>`
}


function Looks({ looks }) {
const [at, go] = useState(0)
const button = ({ name }, number) => html`<button type="button" key=${number} aria-pressed=${String(number === at)}
onClick=${() => go(number)}>${name}</button>`
return html`
${looks.length > 1 && html`<${Roving} class="row looks" aria-label="Looks">${looks.map(button)}<//>`}
<${Inline} key=${at} seen=${looks[at]} />`
}

arrive({ GraphDrawing, Heard, Marked, Ranked, Spans })
const seen = JSON.parse(document.getElementById('seen').textContent)
render(html`<${Looks} looks=${seen.looks ?? [seen]} />`, document.getElementById('app'))

return {  }
})($canvas_js, $chat_js, $drawing_js, $every_head_js, $image_view_js, $heard_js, $graph_drawing_js, $lazy_js, $looks_js, $marked_js, $objects_js, $objects_view_js, $preact_js, $ranked_js, $roving_js, $select_js, $selection_js, $spans_js, $states_view_js, $tasks_js, $text_view_js, $values_js, $words_js)
