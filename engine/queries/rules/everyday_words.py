"""Everyday English words that can stand for each other: `word other,other;` in base form or singular."""

VERBS = """
accept agree to; achieve reach; acquire buy,take over; announce reveal,make public; allow let,permit; assist help;
attempt try; attend go to; begin start; build construct; buy purchase; cause lead to,bring about;
choose pick,select; claim assert; close shut; collect gather; commence begin,start; compare contrast;
complete finish; confirm verify; construct build; consume use up; continue keep on; create make,produce;
criticize attack; decide choose; defeat beat; deliver provide;
demand call for; demonstrate show; deny reject; derive obtain; describe explain,outline; determine find,establish;
develop create,build; disclose reveal,share; discover find; discuss talk about; employ use; enable allow;
encourage urge; enhance improve; ensure guarantee; establish set up; estimate gauge; evaluate assess;
examine study,look at; expand grow; explain describe; face confront; feature include; finish complete; fix repair;
gain get; gather collect; generate produce; grow increase; happen occur; help assist,support; hire recruit;
identify find,recognize; implement put in place; improve better,boost; include contain; increase raise,boost;
indicate show; inform notify; initiate start; investigate look into; launch release,introduce; lower reduce;
maintain keep; make produce; manufacture make; mention refer to; modify change; monitor track; need require;
notify inform; obtain get; occur happen; offer provide; oppose resist; own possess; permit allow; pick choose;
postpone delay; predict forecast; present show; prevent stop; prohibit ban,forbid; promise pledge; promote support;
propose suggest; protect safeguard; prove show; provide give,supply; publish release; purchase buy; pursue seek;
raise increase; receive get; recommend advise; reduce cut,lower; refuse decline; reject turn down; release publish;
remain stay; remove take away; repair fix; replace swap; request ask for; require need; resemble look like;
reside live; restrict limit; retain keep; reveal disclose,show; select choose; sell market; settle resolve;
show demonstrate,display; start begin; stop halt; study examine; submit send in,file; suggest propose;
supply provide; surge jump; terminate end; test try out; transmit send; understand grasp; unveil reveal,present;
update revise; urge encourage; use employ; utilize use; vary differ; verify check; withdraw pull out
"""
WORDS = """
ability capability; accord agreement; acquisition takeover,purchase; additional extra,further; advantage benefit;
aim goal,purpose; amount quantity; analysis study,examination; announcement news;
approach method; approximately about,roughly; area region; article piece; assistance help,aid; attempt effort;
attorney lawyer; authority power; beginning start; behavior conduct; benefit advantage; big large,major; boss head;
budget spending plan; business company,firm; capability ability; car vehicle; cause reason;
chance opportunity,likelihood; change shift; cheap inexpensive,affordable; chief head; child kid; choice option;
clause provision; client customer; colleague coworker; company firm,business; concern worry;
confidential secret,private; conflict dispute; consequence result; cost price,expense;
country nation; crucial vital,key; customer client,buyer; damage harm; danger risk; data information;
deadline due date; decision choice; decline drop,fall; decrease fall,reduction; demand need;
device gadget; difference gap; difficult hard; director head; discount reduction; dispute conflict;
distribution spread; doctor physician; document file; drop fall,decline; duration length; duty obligation;
easy simple; effect impact,influence; effort attempt; employee worker,staff member; employer company;
employment job; enormous huge; entire whole; equipment gear; error mistake; essential necessary; evidence proof;
examination study; example instance; executive manager; expense cost; expensive costly; experiment test;
expert specialist; factor element; famous well-known; fan supporter; fast quick,rapid; feature function; fee charge;
film movie; firm company; flaw weakness; focus emphasis; fund money; funding financing; game match; gap difference;
gift present; goal aim,target; government administration; growth increase,expansion; guideline rule; harm damage;
huge enormous,massive; idea concept; illegal unlawful; immediately at once; impact effect,influence;
importance significance; important significant,key; improvement gain,progress; increase rise,growth;
individual person; industry sector; influence effect; information data,details; internet web;
investigation inquiry,study; issue problem,matter; job position; key main,central; kid child; law legislation;
lawsuit legal case; lawyer attorney; leader head; legal lawful; legislation law; liability responsibility;
limit cap; link connection; loss deficit; low small; main principal,primary; major big,important; manager boss;
manner way; marriage wedding; match game; material substance; maximum highest; meeting gathering;
member participant; method technique,approach; minimum lowest; mistake error; money funds,cash; movie film;
nation country; necessary needed,required; notice notification; novel book; objective aim,goal;
obligation duty,responsibility; obvious clear; occurrence event; offer proposal; officer official; opinion view;
opponent rival; opportunity chance; option choice,alternative; owner holder; participant member; party side;
payment fee; performance results; person individual; phone smartphone; photo picture,image;
plan scheme,proposal; popular well-liked; portion part; position post,role; possibility chance; power authority;
previous earlier,prior; price cost; primary main; prior previous; procedure process;
profit earnings; prohibited forbidden; proposal plan; protection safeguards; provision clause,term;
purpose aim,goal; quick fast; reason cause; recent latest; reduction cut,decrease; region area; regulation rule;
relationship connection; release launch; remedy relief; report account; request demand; requirement condition;
research studies; researcher scientist; resident inhabitant; response reply,answer; result outcome,finding;
revenue income,sales; review assessment; rise increase; risk danger; rival competitor; rule regulation; salary pay;
sale deal; scientist researcher; season campaign; sector industry; security safety; serious grave; shift change;
significant considerable; similar comparable; skill ability; solution answer; speed velocity; staff employees;
statement declaration; strategy plan; student pupil; study research,investigation;
sufficient enough,adequate; supporter fan,backer; target goal; task job; team squad; technique method;
term condition; test experiment,trial; thin slender; threat danger; trial test; trouble difficulty;
unable not able; user customer; vehicle car; velocity speed; victory win; view opinion;
violation breach; weakness flaw; wealthy rich; worker employee; worry concern
"""
